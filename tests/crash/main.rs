//! Crashes and failing machines, on real file systems: what must hold of the program whatever moment
//! it is killed at, whatever moment the power fails at, and whatever the kernel refuses.
//!
//! | module | proves |
//! |---|---|
//! | [`gate`] | the judge of the other modules tells right publishers from wrong ones |
//! | [`fastboot`] | states that a validator starts from: the whole new one, the whole old one, or none |
//! | [`loops`] | killed, or without power, at random moments: all or nothing, and all if reported |
//! | [`steps`] | the same at every single step of staging and publishing |
//! | [`images`] | the same of images of the disk, taken while the program runs |
//! | [`space`] | full disks, be it that they say so only when synced |
//! | [`limits`] | limits of memory, open files, locked memory |
//! | [`rings`] | rings that cannot be set up |
//! | [`devices`] | large sectors, slow disks, disks that become read-only |
//!
//! | fault | where |
//! |---|---|
//! | SIGKILL | [`loops`], [`steps`] |
//! | power cut (ioctl GOINGDOWN without a flush of the log; snapshot of the device) | [`loops`], [`steps`], [`images`] |
//! | ENOSPC, direct and buffered, both engines | ext4, tmpfs: `e2e::faults`; XFS: [`space`] |
//! | ENOSPC, EIO only at the sync | [`space`]; early write-back: `e2e::faults` |
//! | no inodes | `e2e::faults` (ext4, tmpfs) |
//! | EROFS | before: `e2e::destinations`; in the middle: [`devices`] |
//! | RLIMIT_FSIZE | `e2e::faults` |
//! | RLIMIT_NOFILE, RLIMIT_MEMLOCK, memory of a cgroup | [`limits`] |
//! | io_uring refused: EPERM, ENOSYS, ENOMEM | `e2e::faults` |
//! | io_uring_enter: EINTR, EAGAIN, EBUSY | `e2e::faults` |
//! | io_uring_register refused | [`rings`] |
//! | sectors of 4096 bytes | ext4: `e2e::destinations`; XFS: [`devices`] |
//! | slow disk | [`devices`] |
//!
//! Rounds are few by default; `UNSNAP_CRASH_ROUNDS=<N>` makes more of them, `UNSNAP_TEST_SEED=<N>`
//! repeats one. Everything here needs root and some tools; without them the tests are skipped.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod devices;
mod fastboot;
mod gate;
mod images;
mod law;
mod limits;
mod loops;
mod rings;
mod space;
mod stage;
mod steps;
