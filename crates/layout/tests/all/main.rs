//! Members in, placements and refusals out: both layouts tested by values.

mod any;
mod bank;
mod fastboot;
mod member;
mod snapshot;
