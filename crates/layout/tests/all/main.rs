//! Members in, placements and refusals out: both layouts tested by values.

mod any;
mod bank;
mod member;
mod snapshot;
