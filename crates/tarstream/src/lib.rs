//! A tar archive, walked without doing any I/O.
//!
//! The principal type is [`Walker`]. It is fed consecutive slices of the decoded stream, of any
//! size down to one byte, and says for each prefix of a slice what it is: nothing of interest, the
//! header of a [`Member`], bytes of that member's payload, or the end of the archive. It never
//! copies payload: a payload event is a range of the caller's own slice.
//!
//! ```text
//! │ L K x g extensions │ header │ payload … │ padding │ header │ … │ zeros │ zeros │ zeros …
//! └────────── Member ──────────┘ └─ Payload ┘                               End ┘
//! ```
//!
//! What is read: GNU, POSIX ustar and v7 headers, GNU long names, PAX headers, GNU sparse members
//! (reported, not expanded). Constructs that tar readers are known to understand in different ways
//! are refused; each such rule is one variant of [`TarError`] or [`PaxProblem`]. The end is proven:
//! [`Walker::finish`] succeeds only after two zero blocks and nothing but zeros behind them.
//!
//! What is left to others: which paths and kinds are welcome (crate `layout`), and writing anything
//! anywhere. Modes, owners and times are not interpreted: genuine account entries leave them empty.
//! Padding behind a payload is skipped unseen, as every tar reader does.
//!
//! ```
//! use unsnap_tarstream::{Event, Limits, TarError, Walker};
//!
//! fn list(segments: &[&[u8]]) -> Result<Vec<String>, TarError> {
//!     let mut walker = Walker::new(Limits::default());
//!     let mut names = Vec::new();
//!     for segment in segments {
//!         let mut input = *segment;
//!         while !input.is_empty() {
//!             let step = walker.step(input)?;
//!             if let Event::Member(member) = step.event {
//!                 names.push(unsnap_tarstream::printable(member.path));
//!             }
//!             input = &input[step.consumed..];
//!         }
//!     }
//!     walker.finish()?;
//!     Ok(names)
//! }
//!
//! assert!(list(&[&[0; 512], &[0; 512]]).expect("two zero blocks are an archive").is_empty());
//! assert!(list(&[&[0; 512]]).is_err(), "one zero block is a cut archive");
//! ```

#![forbid(unsafe_code)]

mod error;
mod escape;
mod extension;
mod failure;
mod header;
mod limits;
mod member;
mod pax;
mod walker;

pub use error::{NumberProblem, TarError};
pub use escape::printable;
pub use limits::Limits;
pub use member::{Event, Member, MemberKind, Step};
pub use pax::PaxProblem;
pub use walker::Walker;
