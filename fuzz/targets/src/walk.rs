//! Events of `unsnap-tarstream` over a stream, in a form that can be compared.

use std::ops::Range;

use unsnap_tarstream::{Event, Limits, Member, MemberKind, TarError, Walker};

use crate::text::assert_safe;

/// An event that owns its data. Adjacent payload events are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Member(SeenMember),
    Payload { range: Range<u64>, complete: bool },
    End { offset: u64 },
}

/// A member that owns its data.
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

/// A walk to the end or to the refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    pub events: Vec<Seen>,
    pub result: Result<(), TarError>,
}

impl Walked {
    pub fn members(&self) -> impl Iterator<Item = &SeenMember> {
        self.events
            .iter()
            .filter_map(|seen| if let Seen::Member(member) = seen { Some(member) } else { None })
    }

    /// Returns the offset at which the stream was complete.
    pub fn end(&self) -> Option<u64> {
        self.events.iter().find_map(|seen| match seen {
            Seen::End { offset } => Some(*offset),
            _ => None,
        })
    }
}

/// Walks a stream that arrives in these pieces, and checks properties that hold for every stream.
pub fn walk<'s>(pieces: impl IntoIterator<Item = &'s [u8]>) -> Walked {
    let mut walker = Walker::new(Limits::default());
    let mut events = Vec::new();
    let mut given = 0;
    let mut result = Ok(());
    'pieces: for piece in pieces {
        given += piece.len() as u64;
        let mut input = piece;
        while !input.is_empty() {
            let offset = walker.raw_offset();
            let step = match walker.step(input) {
                Ok(step) => step,
                Err(error) => {
                    result = Err(error);
                    break 'pieces;
                }
            };
            let consumed = step.consumed;
            assert!((1..=input.len()).contains(&consumed), "a step makes progress");
            match step.event {
                Event::Skipped => {}
                Event::Member(member) => events.push(Seen::Member(member.into())),
                Event::Payload { last } => push_payload(&mut events, offset, consumed, last),
                Event::End => events.push(Seen::End { offset: offset + consumed as u64 }),
            }
            assert_eq!(walker.raw_offset(), offset + consumed as u64);
            input = &input[consumed..];
        }
    }
    if result.is_ok() {
        result = walker.finish();
        assert_eq!(walker.raw_offset(), given, "everything was consumed");
    } else {
        assert!(walker.finish().is_err(), "a refused stream is not complete");
        assert!(walker.step(&[0; 512]).is_err(), "a refused stream stays refused");
    }
    if let Err(error) = &result {
        assert!(error.raw_offset() <= given, "{error} after {given} bytes");
        assert_safe(&error.to_string());
        error.entry().into_iter().for_each(assert_safe);
    }
    check(&events, result.is_ok());
    Walked { events, result }
}

impl From<Member<'_>> for SeenMember {
    fn from(member: Member<'_>) -> Self {
        Self {
            kind: member.kind,
            path: member.path.to_vec(),
            link: member.link.to_vec(),
            size: member.size,
            header_offset: member.header_offset,
            payload_offset: member.payload_offset,
            mode: member.mode,
            mtime: member.mtime,
        }
    }
}

fn push_payload(events: &mut Vec<Seen>, offset: u64, consumed: usize, last: bool) {
    let end = offset + consumed as u64;
    if let Some(Seen::Payload { range, complete }) = events.last_mut() {
        assert!(!*complete, "no payload after the last");
        assert_eq!(range.end, offset, "payload is contiguous");
        range.end = end;
        *complete = last;
    } else {
        events.push(Seen::Payload { range: offset..end, complete: last });
    }
}

/// Checks properties that hold for the events of every stream.
fn check(events: &[Seen], accepted: bool) {
    let mut free_from = 0;
    for (index, seen) in events.iter().enumerate() {
        match seen {
            Seen::Member(member) => {
                check_member(member);
                assert!(member.header_offset >= free_from, "members do not overlap");
                assert_eq!(member.header_offset % 512, 0);
                assert!(member.payload_offset >= member.header_offset + 512);
                free_from = member.payload_offset + member.size;
                let payload = events.get(index + 1);
                let whole = member.payload_offset..free_from;
                match payload {
                    Some(Seen::Payload { range, complete }) => {
                        assert_eq!(range.start, whole.start);
                        assert!(range.end <= whole.end);
                        assert_eq!(*complete, range.end == whole.end);
                        assert!(*complete || index + 2 == events.len());
                    }
                    Some(_) => assert_eq!(member.size, 0),
                    None => assert!(!accepted, "the end is the last event"),
                }
            }
            Seen::Payload { .. } => {
                assert!(index > 0 && matches!(events[index - 1], Seen::Member(_)));
            }
            Seen::End { offset } => {
                assert_eq!(index + 1, events.len(), "the end is the last event");
                assert!(offset % 512 == 0 && *offset >= free_from + 1024);
            }
        }
    }
    assert!(!accepted || matches!(events.last(), Some(Seen::End { .. })));
}

fn check_member(member: &SeenMember) {
    assert!(!member.path.is_empty() && !member.path.contains(&0));
    assert!(!member.link.contains(&0));
    assert!(member.path.len() <= 4095 && member.link.len() <= 4095);
    assert!(i64::try_from(member.size).is_ok());
    assert_eq!(member.payload_offset % 512, 0);
    let is_link = matches!(member.kind, MemberKind::HardLink | MemberKind::SymbolicLink);
    // A PAX header may declare anything sparse, even a link.
    assert!(is_link || member.kind == MemberKind::Sparse || member.link.is_empty());
    match member.kind {
        MemberKind::Regular | MemberKind::Sparse | MemberKind::Other(_) => {}
        _ => assert_eq!(member.size, 0, "{} has no content", member.kind),
    }
}
