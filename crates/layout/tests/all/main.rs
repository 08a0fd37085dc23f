//! Tests of both layouts by values: members in, placements and refusals out.

mod any;
mod bank;
mod member;
mod snapshot;
