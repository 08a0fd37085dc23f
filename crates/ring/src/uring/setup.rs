//! Ring set-up: flags, restrictions and registered memory.

use std::{io, os::fd::RawFd};

use io_uring::{Builder, IoUring, opcode, register::Restriction, squeue};
use rustix::io::Errno;
use unsnap_arena::ArenaRanges;

use crate::engine::UringRefused;

/// Largest buffer that the kernel registers, 1 GiB (io_uring_register(2)).
pub(super) const REGISTERED_PIECE_BYTES: usize = 1 << 30;

/// Sets up a disabled ring with the best flags that the kernel supports.
///
/// The flags decide which task runs completion work and when; they change no result. SINGLE_ISSUER
/// needs Linux 6.0, DEFER_TASKRUN 6.1, COOP_TASKRUN 5.19.
pub(crate) fn build_ring(entries: u32, attach: Option<RawFd>) -> Result<IoUring, UringRefused> {
    type SetFlags = fn(&mut Builder) -> &mut Builder;
    let preferences: [SetFlags; 3] = [
        |builder| builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag(),
        |builder| builder.setup_coop_taskrun().setup_taskrun_flag(),
        |builder| builder,
    ];
    let mut refusal = Errno::INVAL;
    for attach in [attach, None] {
        for set_flags in preferences {
            let mut builder = IoUring::builder();
            builder.dontfork().setup_r_disabled();
            set_flags(&mut builder);
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

/// Operations that [`Uring::issue`](super::Uring) submits on every kernel, with their names in
/// io_uring_enter(2).
pub(crate) const OPERATIONS: [(&str, u8); 6] = [
    ("OPENAT2", opcode::OpenAt2::CODE),
    ("READ", opcode::Read::CODE),
    ("READ_FIXED", opcode::ReadFixed::CODE),
    ("WRITE", opcode::Write::CODE),
    ("WRITE_FIXED", opcode::WriteFixed::CODE),
    ("CLOSE", opcode::Close::CODE),
];

/// `IORING_REGISTER_IOWQ_MAX_WORKERS` of io_uring_register(2).
const REGISTER_IOWQ_MAX_WORKERS: u8 = 19;

/// Restricts the ring to what [`Uring::issue`](super::Uring) submits (Linux 5.10). Once the ring is
/// enabled, the kernel refuses every other operation, every other flag and every registration
/// except that of the number of kernel workers, from Linux 5.17 on.
pub(crate) fn restrict(ring: &IoUring) -> io::Result<()> {
    let operations = OPERATIONS.into_iter().map(|(_, code)| Restriction::sqe_op(code));
    let flags = Restriction::sqe_flags_allowed(squeue::Flags::ASYNC.bits());
    // A kernel refuses restrictions that name a registration which it does not know.
    let of_workers = ring
        .params()
        .is_feature_skip_cqe_on_success()
        .then(|| Restriction::register_op(REGISTER_IOWQ_MAX_WORKERS));
    let mut restrictions: Vec<_> = operations.chain([flags]).chain(of_workers).collect();
    ring.submitter().register_restrictions(&mut restrictions)
}

/// Registers the arena with the ring, so that the kernel pins and maps its memory. Fails if the
/// locked-memory limit is too low.
///
/// # Safety
/// The memory must stay mapped for as long as the ring lives.
pub(crate) unsafe fn register(ring: &IoUring, arena: &ArenaRanges) -> io::Result<()> {
    let pieces: Vec<_> = arena
        .pieces(REGISTERED_PIECE_BYTES)
        .map(|(start, len)| libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len })
        .collect();
    // SAFETY: the pieces lie within the arena's mapping (`ArenaRanges::pieces`), which the caller
    // keeps alive. The call copies the list itself.
    unsafe { ring.submitter().register_buffers(&pieces) }
}
