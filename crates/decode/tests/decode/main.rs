//! Decoding as a whole: bytes in by a source, segments out, over every engine.
//!
//! | module | asks |
//! |---|---|
//! | `shapes` | whether every shape of archive comes back, however it is cut into spans and segments |
//! | `damage` | what is said of archives that are cut, damaged, lying or hostile, and where |
//! | `golden` | whether the zstd project's own good and bad frames are decoded or refused as by libzstd |
//! | `memory` | whether the smallest memory is enough, and comes back when decoding is given up |
//! | `support` | nothing: it runs the decoder and checks what holds for every run |

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod damage;
mod golden;
mod memory;
mod shapes;
mod support;
