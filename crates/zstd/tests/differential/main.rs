//! Our decoder and libzstd on the same bytes: both return the same, or both refuse.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

mod carried;
mod damage;
mod golden;
mod shapes;
mod support;
