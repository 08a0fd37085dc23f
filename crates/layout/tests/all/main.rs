//! Members in, placements and refusals out: both layouts tested by values.

mod any;
mod member;
mod snapshot;
