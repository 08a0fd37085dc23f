//! The walker's events over a whole stream, in a form that can be compared.

use std::ops::Range;
use unsnap_tarstream::{Event, Limits, MemberKind, TarError, Walker};

/// An event that owns its data. Adjacent payload events are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Member(SeenMember),
    Payload { range: Range<u64>, complete: bool },
    End { offset: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMember {
    pub kind: MemberKind,
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub size: u64,
    pub header_offset: u64,
    pub payload_offset: u64,
    pub mode: Option<u32>,
    pub mtime: Option<u64>,
}

/// Walks a stream that arrives as one slice.
pub fn walk(stream: &[u8]) -> Result<Vec<Seen>, TarError> {
    walk_pieces([stream])
}

/// Walks a stream that arrives in these slices.
pub fn walk_pieces<'s>(pieces: impl IntoIterator<Item = &'s [u8]>) -> Result<Vec<Seen>, TarError> {
    walk_with(Limits::default(), pieces)
}

pub fn walk_with<'s>(
    limits: Limits,
    pieces: impl IntoIterator<Item = &'s [u8]>,
) -> Result<Vec<Seen>, TarError> {
    let mut walker = Walker::new(limits);
    let mut seen = Vec::new();
    for piece in pieces {
        let mut input = piece;
        while !input.is_empty() {
            let offset = walker.raw_offset();
            let step = walker.step(input)?;
            let consumed = step.consumed;
            assert!((1..=input.len()).contains(&consumed), "every step makes progress");
            match step.event {
                Event::Skipped => {}
                Event::Member(member) => seen.push(Seen::Member(SeenMember {
                    kind: member.kind,
                    path: member.path.to_vec(),
                    link: member.link.to_vec(),
                    size: member.size,
                    header_offset: member.header_offset,
                    payload_offset: member.payload_offset,
                    mode: member.mode,
                    mtime: member.mtime,
                })),
                Event::Payload { last } => push_payload(&mut seen, offset, consumed, last),
                Event::End => seen.push(Seen::End { offset: offset + consumed as u64 }),
            }
            assert_eq!(walker.raw_offset(), offset + consumed as u64);
            input = &input[consumed..];
        }
    }
    walker.finish()?;
    check(&seen);
    Ok(seen)
}

/// Returns the members of a stream, without the other events.
pub fn members(stream: &[u8]) -> Result<Vec<SeenMember>, TarError> {
    let seen = walk(stream)?;
    Ok(seen
        .into_iter()
        .filter_map(|seen| if let Seen::Member(member) = seen { Some(member) } else { None })
        .collect())
}

fn push_payload(seen: &mut Vec<Seen>, offset: u64, consumed: usize, last: bool) {
    let end = offset + consumed as u64;
    if let Some(Seen::Payload { range, complete }) = seen.last_mut() {
        assert!(!*complete, "no payload behind the last");
        assert_eq!(range.end, offset, "payload is contiguous");
        range.end = end;
        *complete = last;
    } else {
        seen.push(Seen::Payload { range: offset..end, complete: last });
    }
}

/// Checks properties that hold for every accepted archive.
fn check(seen: &[Seen]) {
    assert!(matches!(seen.last(), Some(Seen::End { .. })), "the end is the last event");
    for pair in seen.windows(2) {
        match pair {
            [Seen::Member(member), next] if member.size > 0 => {
                let range = member.payload_offset..member.payload_offset + member.size;
                assert_eq!(*next, Seen::Payload { range, complete: true });
            }
            [Seen::Member(_), next] => assert!(!matches!(next, Seen::Payload { .. })),
            [Seen::Payload { .. }, next] => assert!(!matches!(next, Seen::Payload { .. })),
            _ => {}
        }
    }
}
