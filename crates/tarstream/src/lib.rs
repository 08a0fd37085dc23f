//! A tar parser that does no I/O.
//!
//! [`Walker`] is the main type. The caller feeds it consecutive slices of the decoded stream, of
//! any size down to one byte. For each prefix of a slice it reports one of: nothing of interest,
//! the header of a [`Member`], bytes of that member's payload, or the end of the archive. It never
//! copies payload: a payload event is a range of the caller's own slice.
//!
//! ```text
//! │ L K x g extensions │ header │ payload … │ padding │ header │ … │ zeros │ zeros │ zeros …
//! └────────── Member ──────────┘ └─ Payload ┘                               End ┘
//! ```
//!
//! The parser reads GNU, POSIX ustar and v7 headers, GNU long names, PAX headers and GNU sparse
//! members (reported, not expanded). It refuses constructs that tar readers are known to interpret
//! differently; each such rule is one variant of [`TarError`] or [`PaxProblem`]. It also proves
//! that the archive is complete: [`Walker::finish`] succeeds only after two zero blocks followed by
//! nothing but zeros.
//!
//! Other crates decide which paths and kinds are acceptable (`layout`) and write files. Modes,
//! owners and times are not interpreted, because genuine account entries leave them empty. Padding
//! after a payload is skipped without being inspected, as every tar reader does.
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
//! assert!(list(&[&[0; 512], &[0; 512]]).expect("an empty archive").is_empty());
//! assert!(list(&[&[0; 512]]).is_err(), "a truncated archive");
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
