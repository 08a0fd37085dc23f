//! Units, and the programs they start, under a real systemd: booted in a container of this machine's
//! own root, one for each test, which takes a third of a second.
//!
//! | module | proves |
//! |---|---|
//! | [`container`] | (the containers) |
//! | [`stage`] | (what the package installs) |
//! | [`units`] | systemd's tools accept what is in deploy/, and find the services hardened |
//! | [`service`] | unpackd: start, status, reload, watchdog, socket, stop, kill, jobs |
//! | [`sandbox`] | what unpackd.service may not do |
//! | [`drop_ins`] | metrics on loopback; a state as the validator's user; the order of units |
//! | [`stand_in`] | a validator behind the front end, and unpackd: reboots and power cuts |
//! | [`instances`] | two instances of unpackd, each with its own user, configuration, memory and socket |
//! | [`fleet`] | the commands of docs/fleet.md do what the page says |
//! | [`package`] | the Debian package installs, starts, upgrades and goes |
//! | [`oneshot`] | `unsnap-unpack.service` unpacks an archive, and its sandbox holds |
//!
//! Everything here needs root and `systemd-nspawn` (Debian: systemd-container); without them the
//! tests are skipped.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod container;
mod drop_ins;
mod fleet;
mod instances;
mod oneshot;
mod package;
mod sandbox;
mod service;
mod stage;
mod stand_in;
mod units;
