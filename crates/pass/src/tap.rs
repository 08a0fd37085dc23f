//! Taps: listeners to every byte of the decoded stream.

use std::ops::ControlFlow;

use unsnap_arena::Slice;
use unsnap_layout::Role;
use unsnap_tarstream::Member;

use crate::{PassError, Span};

/// Meaning of some bytes of the decoded stream.
#[derive(Clone, Copy, Debug)]
pub enum Passing<'a> {
    /// Part of a header, an extension, padding, or the zeros at the end.
    Skipped,
    /// The last bytes of a member's header; the layout has admitted the member.
    Member {
        /// The member.
        member: Member<'a>,
        /// Role of the member in a snapshot; `None` for a directory.
        role: Option<Role>,
    },
    /// Payload of the current member.
    Payload {
        /// Whether these bytes complete the member's payload.
        last: bool,
    },
    /// The second zero block.
    End,
}

/// Listener to the decoded stream of an archive, which receives every byte in order.
pub trait Tap: Send {
    /// Receives the next bytes, after all checks of them have passed so far.
    ///
    /// `bytes` is a counted reference to a segment, which is not reused before the reference is
    /// dropped. A tap that keeps references must announce their total size
    /// ([`held_bytes`](unsnap_decode::Tuning::held_bytes)), or the stream may block forever. A
    /// break ends the run with [`PassError::Cancelled`].
    fn take(&mut self, what: Passing<'_>, bytes: Slice) -> ControlFlow<()>;
}

/// Passes the bytes of an event to the tap, if there is one.
pub fn show(
    tap: &mut Option<&mut dyn Tap>,
    what: Passing<'_>,
    span: &Span<'_>,
) -> Result<(), PassError> {
    let Some(tap) = tap else { return Ok(()) };
    match tap.take(what, span.slice()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(PassError::Cancelled),
    }
}
