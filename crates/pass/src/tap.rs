//! A listener to the decoded stream.

use std::{ops::ControlFlow, ops::Range};

use unsnap_arena::{SegmentView, Slice};
use unsnap_layout::Role;
use unsnap_tarstream::Member;

use crate::PassError;

/// What some bytes of the decoded stream are.
#[derive(Clone, Copy, Debug)]
pub enum Passing<'a> {
    /// Part of a header, an extension, padding or the zeros at the end.
    Skipped,
    /// The last bytes of a member's header; the layout has admitted the member.
    Member {
        /// The member.
        member: Member<'a>,
        /// What it is in a snapshot; `None` for a directory.
        role: Option<Role>,
    },
    /// Payload of the member.
    Payload {
        /// The member's payload is complete with these bytes.
        last: bool,
    },
    /// The second zero block.
    End,
}

/// Listens to the decoded stream of an archive: every byte of it, in order.
pub trait Tap: Send {
    /// `bytes` have passed by, and nothing was wrong with them so far.
    ///
    /// They are a counted reference to a segment, which is not used again before it is dropped. So
    /// whoever keeps references says how many bytes' worth of them
    /// ([`held_bytes`](unsnap_decode::Tuning::held_bytes)), or the stream may stand still
    /// for ever. A break ends the run by [`PassError::Cancelled`](crate::PassError::Cancelled).
    fn take(&mut self, what: Passing<'_>, bytes: Slice) -> ControlFlow<()>;
}

/// Shows a tap what has passed by, if there is one.
pub fn show(
    tap: &mut Option<&mut dyn Tap>,
    what: Passing<'_>,
    view: &SegmentView,
    range: Range<usize>,
) -> Result<(), PassError> {
    let Some(tap) = tap else { return Ok(()) };
    match tap.take(what, view.slice(0, range)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(PassError::Cancelled),
    }
}
