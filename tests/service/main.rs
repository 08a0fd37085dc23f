//! The service `unpackd`, as a process: what it makes of archives that appear, change and go, and what
//! is left of it when it is killed.
//!
//! | module | proves |
//! |---|---|
//! | [`jobs`] | archives become trees and states; bad ones are passed over; what fails is tried again |
//! | [`validator`] | a validator's state is prepared where it looks, or beside it while it runs |
//! | [`handover`] | service and `validator` wait for each other, and use each other's states |
//! | [`control`] | what clients ask, pause, reload |
//! | [`hook`] | the program of `on-event` is told of what is wrong |
//! | [`metrics`] | what Prometheus and node_exporter are told |
//! | [`page`] | the status page, as a browser shows it |
//! | [`neighbour`] | jobs keep to what is configured of priorities, processors and rate |
//! | [`machine`] | what file systems and queues of the kernel do to it |
//! | [`space`] | min-free stays free beside a validator; what nobody needs any more is removed |
//! | [`processes`] | systemd's socket; two services that want the same |
//! | [`soak`] | hundreds of archives, good and bad, with kills and reloads: nothing good missed, nothing bad published |
//! | [`idle`] | no wake-ups, little memory |
//!
//! The soak has 40 archives by default; `UNSNAP_SOAK_ARCHIVES=500` makes it longer,
//! `UNSNAP_TEST_SEED=<N>` repeats one.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod control;
mod handover;
mod hook;
mod idle;
mod jobs;
mod machine;
mod metrics;
mod neighbour;
mod page;
mod processes;
mod soak;
mod space;
mod validator;
