#![forbid(unsafe_code)]
//! The service that keeps the newest snapshot unpacked, without what makes it a process.
//!
//! * [`config`]: what is configured.

pub mod config;
