//! Making a ring: its flags, what it may be asked to do, and the memory it knows.

use std::{io, os::fd::RawFd};

use io_uring::{Builder, IoUring, opcode, register::Restriction, squeue};
use rustix::io::Errno;
use unsnap_arena::ArenaRanges;

use crate::engine::UringRefused;

/// The kernel takes buffers of at most 1 GiB each for registration (io_uring_register(2)).
pub(super) const REGISTERED_PIECE_BYTES: usize = 1 << 30;

/// A ring with the best flags the kernel knows.
///
/// The flags decide who runs completion work and when; they change no result. SINGLE_ISSUER is
/// from Linux 6.0, DEFER_TASKRUN from 6.1, COOP_TASKRUN from 5.19.
pub(crate) fn build_ring(entries: u32, attach: Option<RawFd>) -> Result<IoUring, UringRefused> {
    type SetUp = fn(&mut Builder) -> &mut Builder;
    let flavours: [SetUp; 3] = [
        |builder| builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag(),
        |builder| builder.setup_coop_taskrun().setup_taskrun_flag(),
        |builder| builder,
    ];
    let mut refusal = Errno::INVAL;
    for attach in [attach, None] {
        for flavour in flavours {
            let mut builder = IoUring::builder();
            builder.dontfork().setup_r_disabled();
            flavour(&mut builder);
            if let Some(ring) = attach {
                builder.setup_attach_wq(ring);
            }
            match builder.build(entries) {
                Ok(ring) => return Ok(ring),
                Err(error) => refusal = Errno::from_io_error(&error).unwrap_or(Errno::NOSYS),
            }
            if refusal != Errno::INVAL {
                return Err(UringRefused { errno: refusal });
            }
        }
    }
    Err(UringRefused { errno: refusal })
}

/// Operations that [`Uring::issue`](super::Uring) submits on every kernel, by the names of io_uring_enter(2).
pub(crate) const OPERATIONS: [(&str, u8); 6] = [
    ("OPENAT2", opcode::OpenAt2::CODE),
    ("READ", opcode::Read::CODE),
    ("READ_FIXED", opcode::ReadFixed::CODE),
    ("WRITE", opcode::Write::CODE),
    ("WRITE_FIXED", opcode::WriteFixed::CODE),
    ("CLOSE", opcode::Close::CODE),
];

/// Has the kernel refuse everything but what [`Uring::issue`](super::Uring) submits, once the ring is enabled: no
/// other operation, no other flag, no registration (Linux 5.10).
pub(crate) fn restrict(ring: &IoUring, truncates: bool) -> io::Result<()> {
    let mut restrictions: Vec<Restriction> = OPERATIONS
        .into_iter()
        .map(|(_, code)| code)
        // A kernel that does not know an operation refuses to hear of it.
        .chain(truncates.then_some(opcode::Ftruncate::CODE))
        .map(Restriction::sqe_op)
        .collect();
    restrictions.push(Restriction::sqe_flags_allowed(squeue::Flags::ASYNC.bits()));
    ring.submitter().register_restrictions(&mut restrictions)
}

/// Has the kernel pin the memory and map it for the ring, where the limit of locked memory allows.
///
/// # Safety
/// The memory must stay mapped for as long as the ring lives.
pub(crate) unsafe fn register(ring: &IoUring, arena: &ArenaRanges) -> io::Result<()> {
    let pieces: Vec<_> = arena
        .pieces(REGISTERED_PIECE_BYTES)
        .map(|(start, len)| libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len })
        .collect();
    // SAFETY: the pieces lie within the arena's mapping, which the caller keeps.
    unsafe { ring.submitter().register_buffers(&pieces) }
}
