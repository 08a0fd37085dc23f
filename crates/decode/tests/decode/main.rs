//! Tests of decoding as a whole, on every engine.
//!
//! | module | tests |
//! |---|---|
//! | `shapes` | archives of every shape, in spans and segments of any size |
//! | `damage` | errors for truncated, damaged, lying or hostile archives, and their positions |
//! | `golden` | the zstd project's good and bad frames, decoded or refused as by libzstd |
//! | `memory` | decoding in the smallest memory, which is returned when decoding is aborted |
//! | `own` | the own decoder against libzstd, in the pipeline |
//! | `support` | none: runs the decoder and checks invariants of every run |

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod damage;
mod golden;
mod memory;
mod own;
mod shapes;
mod support;
