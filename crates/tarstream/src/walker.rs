//! State machine that assigns each byte of the stream to a header, an extension, payload or
//! padding.

use crate::error::TarError;
use crate::extension::{Extension, Pending};
use crate::header::{self, BLOCK_BYTES, Block, Header};
use crate::limits::Limits;
use crate::member::{Event, Member, MemberKind, Step};
use crate::printable;

/// Walks an archive that arrives in pieces.
///
/// Pass every slice of the stream, in order, to [`step`](Self::step) until it is used up, then call
/// [`finish`](Self::finish). Treat everything reported as provisional until `finish` has succeeded.
/// After an error the walker refuses all further input.
///
/// The walker holds the current path and link target and at most one extension body (see
/// [`Limits`]). It allocates nothing for an ordinary entry.
#[derive(Debug)]
pub struct Walker {
    limits: Limits,
    state: State,
    /// Stream bytes consumed so far. Blocks start at multiples of 512, so headers and padding need
    /// no position of their own. The count covers only bytes that were actually seen, so it cannot
    /// overflow.
    offset: u64,
    /// The first `carry_bytes` bytes of a block that began in an earlier slice.
    carry: Block,
    carry_bytes: usize,
    /// Body of the extension being read.
    extension: Vec<u8>,
    pending: Pending,
    entry: Entry,
    /// Members reported so far.
    entries: u64,
    /// Offset of the end of the archive, once it was reached.
    end: u64,
}

/// Most zero bytes that may follow the end of an archive. Writers pad to a record of 10 KiB, and tape
/// drives to some MiB. Without a limit, a device or a preallocated file would be read for ever. A guess:
/// more than any padding, and read within a second.
const PADDING_BYTES_MAX: u64 = 1 << 30;

/// The same for an archive without entries. An empty archive is valid, and `tar` writes 10 KiB; a
/// file that goes on with zeros is a download whose space was reserved. A guess: 100 empty archives.
const PADDING_BYTES_MAX_WITHOUT_ENTRIES: u64 = 1 << 20;

/// Position of the walker within the archive's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a block that is a header or the first zero block. Extensions may be pending.
    Header,
    /// In an extension's body, `left` bytes before its end. The body is collected until it is
    /// complete.
    Extension { extension: Extension, left: u64 },
    /// In a block of a GNU sparse map, after `blocks` earlier ones. The member has not been
    /// reported yet.
    SparseMap { blocks: u32 },
    /// In the payload of the reported member, `left` bytes before its end. Never 0.
    Payload { left: u64 },
    /// After a payload or an extension body, before the next multiple of 512.
    Padding,
    /// In the block after a zero block. It must be zero too.
    SecondZeroBlock,
    /// After the end marker. Only zeros may follow.
    End,
    /// The archive has been refused.
    Refused,
}

/// [`Event`] without its borrowed parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Skipped,
    Member,
    Payload { last: bool },
    End,
}

/// The member whose header was read last. Its buffers are reused for the next one.
#[derive(Debug)]
struct Entry {
    path: Vec<u8>,
    link: Vec<u8>,
    kind: MemberKind,
    size: u64,
    header_offset: u64,
    payload_offset: u64,
    mode: Option<u32>,
    mtime: Option<u64>,
}

impl Walker {
    /// Creates a walker at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Header,
            offset: 0,
            carry: [0; BLOCK_BYTES],
            carry_bytes: 0,
            extension: Vec::new(),
            pending: Pending::default(),
            entry: Entry {
                path: Vec::new(),
                link: Vec::new(),
                kind: MemberKind::Regular,
                size: 0,
                header_offset: 0,
                payload_offset: 0,
                mode: None,
                mtime: None,
            },
            entries: 0,
            end: 0,
        }
    }

    /// Creates a walker that starts at [`Member::header_offset`] of a member, after an earlier
    /// walker had met `entries` members. Nothing before a member affects how it is read.
    pub fn resume(limits: Limits, header_offset: u64, entries: u64) -> Self {
        debug_assert!(
            header_offset.is_multiple_of(BLOCK_BYTES as u64),
            "members begin at block boundaries"
        );
        Self { offset: header_offset, entries, ..Self::new(limits) }
    }

    /// Returns the number of members met so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Identifies the next bytes of the stream.
    ///
    /// Consumes a prefix of `input`: at least one byte, unless `input` is empty. Call again with
    /// the rest until none is left.
    pub fn step<'w>(&'w mut self, input: &[u8]) -> Result<Step<'w>, TarError> {
        let (consumed, signal) = match self.advance(input) {
            Ok(outcome) => outcome,
            Err(error) => {
                self.state = State::Refused;
                return Err(error);
            }
        };
        let event = match signal {
            Signal::Skipped => Event::Skipped,
            Signal::Member => Event::Member(self.entry.member()),
            Signal::Payload { last } => Event::Payload { last },
            Signal::End => Event::End,
        };
        Ok(Step { consumed, event })
    }

    /// Checks that the stream ended where an archive ends. Call it when there are no more bytes.
    ///
    /// The error reports how far the archive got.
    pub fn finish(&self) -> Result<(), TarError> {
        let offset = self.offset;
        let entry = || (!self.entry.path.is_empty()).then(|| self.entry.printable_path());
        let cut_block = |entry| TarError::TruncatedHeader {
            offset,
            entry,
            found: self.carry_bytes as u64,
            expected: BLOCK_BYTES as u64,
        };
        let missing_end = |found| TarError::MissingEnd {
            offset,
            entry: entry(),
            entries: self.entries,
            found,
            expected: 2,
        };
        Err(match self.state {
            State::End => return Ok(()),
            State::Header if self.carry_bytes > 0 => cut_block(None),
            State::SparseMap { .. } => cut_block(Some(self.entry.printable_path())),
            State::Extension { extension, left } => TarError::TruncatedExtension {
                offset,
                flag: extension.flag(),
                found: self.extension.len() as u64,
                expected: self.extension.len() as u64 + left,
            },
            State::Payload { left } => TarError::TruncatedPayload {
                offset,
                entry: self.entry.printable_path(),
                found: self.entry.size - left,
                expected: self.entry.size,
            },
            State::Header | State::Padding => match self.pending.since {
                Some(offset) => TarError::DanglingExtension { offset },
                None => missing_end(0),
            },
            State::SecondZeroBlock => missing_end(1),
            State::Refused => TarError::AlreadyRefused { offset },
        })
    }

    /// Returns the number of stream bytes consumed so far.
    pub fn raw_offset(&self) -> u64 {
        self.offset
    }

    /// Consumes input up to the first event worth reporting.
    fn advance(&mut self, input: &[u8]) -> Result<(usize, Signal), TarError> {
        let mut rest = input;
        let mut signal = Signal::Skipped;
        while !rest.is_empty() && signal == Signal::Skipped {
            let taken;
            (taken, signal) = match self.state {
                State::Header | State::SparseMap { .. } | State::SecondZeroBlock => {
                    self.take_block(rest)?
                }
                State::Extension { extension, left } => {
                    (self.take_extension(extension, left, rest)?, Signal::Skipped)
                }
                // Always at the start of the input: every transition to this state was reported.
                State::Payload { left } => self.take_payload(left, rest),
                State::Padding => (self.take_padding(rest), Signal::Skipped),
                State::End => (self.take_trailing_zeros(rest)?, Signal::Skipped),
                State::Refused => return Err(TarError::AlreadyRefused { offset: self.offset }),
            };
            rest = &rest[taken..];
        }
        Ok((input.len() - rest.len(), signal))
    }

    /// Reads a block in place, or completes one that an earlier slice began.
    fn take_block(&mut self, rest: &[u8]) -> Result<(usize, Signal), TarError> {
        if self.carry_bytes == 0
            && let Some(block) = rest.first_chunk::<BLOCK_BYTES>()
        {
            self.offset += BLOCK_BYTES as u64;
            return Ok((BLOCK_BYTES, self.read_block(block)?));
        }
        let taken = rest.len().min(BLOCK_BYTES - self.carry_bytes);
        self.carry[self.carry_bytes..][..taken].copy_from_slice(&rest[..taken]);
        self.carry_bytes += taken;
        self.offset += taken as u64;
        if self.carry_bytes < BLOCK_BYTES {
            return Ok((taken, Signal::Skipped));
        }
        self.carry_bytes = 0;
        let block = self.carry;
        Ok((taken, self.read_block(&block)?))
    }

    fn take_extension(
        &mut self,
        extension: Extension,
        left: u64,
        rest: &[u8],
    ) -> Result<usize, TarError> {
        let taken = at_most(rest, left);
        self.extension.extend_from_slice(&rest[..taken]);
        self.offset += taken as u64;
        let left = left - taken as u64;
        self.state = State::Extension { extension, left };
        if left == 0 {
            self.read_extension(extension)?;
        }
        Ok(taken)
    }

    fn take_payload(&mut self, left: u64, rest: &[u8]) -> (usize, Signal) {
        let taken = at_most(rest, left);
        self.offset += taken as u64;
        let left = left - taken as u64;
        self.state = if left > 0 { State::Payload { left } } else { self.after_content() };
        (taken, Signal::Payload { last: left == 0 })
    }

    fn take_padding(&mut self, rest: &[u8]) -> usize {
        let taken = at_most(rest, self.padding_bytes());
        self.offset += taken as u64;
        self.state = self.after_content();
        taken
    }

    fn take_trailing_zeros(&mut self, rest: &[u8]) -> Result<usize, TarError> {
        // Block by block: the compiler turns this search for the first non-zero byte into wide
        // instructions.
        let zero_blocks = rest.chunks(BLOCK_BYTES).take_while(|chunk| or_all(chunk) == 0).count();
        let tail = rest.get(zero_blocks * BLOCK_BYTES..).unwrap_or_default();
        if let Some((position, &found)) = tail.iter().enumerate().find(|(_, byte)| **byte != 0) {
            let offset = self.offset + (zero_blocks * BLOCK_BYTES + position) as u64;
            return Err(TarError::TrailingData { offset, found });
        }
        self.offset += rest.len() as u64;
        let padding_bytes = self.offset - self.end;
        if self.entries == 0 && padding_bytes > PADDING_BYTES_MAX_WITHOUT_ENTRIES {
            return Err(TarError::NoEntries { offset: self.end });
        }
        if padding_bytes > PADDING_BYTES_MAX {
            return Err(TarError::PaddingTooLong { offset: self.end, limit: PADDING_BYTES_MAX });
        }
        Ok(rest.len())
    }

    /// Handles a complete block, which ends at the current offset.
    fn read_block(&mut self, block: &Block) -> Result<Signal, TarError> {
        let block_offset = self.offset - BLOCK_BYTES as u64;
        match self.state {
            State::SparseMap { blocks } => self.read_sparse_map(block, blocks),
            State::SecondZeroBlock if header::is_zero(block) => {
                self.state = State::End;
                self.end = self.offset;
                Ok(Signal::End)
            }
            State::SecondZeroBlock => Err(TarError::StrayZeroBlock { offset: block_offset }),
            _ if header::is_zero(block) => {
                if let Some(offset) = self.pending.since {
                    return Err(TarError::DanglingExtension { offset });
                }
                self.state = State::SecondZeroBlock;
                Ok(Signal::Skipped)
            }
            _ => {
                let header = Header::parse(block, block_offset)?;
                match Extension::of(header)? {
                    Some(extension) => self.begin_extension(extension, header),
                    None => self.read_entry(header),
                }
            }
        }
    }

    fn begin_extension(
        &mut self,
        extension: Extension,
        header: Header<'_>,
    ) -> Result<Signal, TarError> {
        let left = self.pending.begin(extension, header, &self.limits)?;
        self.extension.clear();
        self.state = State::Extension { extension, left };
        if left == 0 {
            self.read_extension(extension)?;
        }
        Ok(Signal::Skipped)
    }

    /// Handles a complete extension body, which ends at the current offset.
    fn read_extension(&mut self, extension: Extension) -> Result<(), TarError> {
        let body_offset = self.offset - self.extension.len() as u64;
        self.pending.apply(extension, &self.extension, body_offset)?;
        self.state = self.after_content();
        Ok(())
    }

    /// Handles the header of an entry: applies its extensions and checks the result.
    fn read_entry(&mut self, header: Header<'_>) -> Result<Signal, TarError> {
        let offset = header.offset;
        let entry = &mut self.entry;
        self.pending.take_path(header, &mut entry.path);
        self.pending.take_link(header, &mut entry.link);
        if entry.path.is_empty() {
            return Err(TarError::EmptyPath { offset });
        }
        let limit = self.limits.path_bytes_max;
        let found = entry.path.len().max(entry.link.len());
        if found > limit {
            let shown = &entry.path[..entry.path.len().min(SHOWN_PATH_BYTES)];
            return Err(TarError::PathTooLong { offset, entry: printable(shown), found, limit });
        }

        entry.size = match (header.size()?, self.pending.size) {
            (found, None) => found,
            // Writers store 0 in the header when the size does not fit.
            (0, Some(pax)) => pax,
            (found, Some(pax)) if found == pax => pax,
            (found, Some(pax)) => {
                let entry = entry.printable_path();
                return Err(TarError::SizeConflict { offset, entry, found, pax });
            }
        };
        let kind = header.kind(&entry.path)?;
        if kind.is_header_only() && entry.size > 0 {
            let (entry, found) = (entry.printable_path(), entry.size);
            return Err(TarError::UnexpectedContent { offset, entry, kind, found });
        }
        if !matches!(kind, MemberKind::HardLink | MemberKind::SymbolicLink) {
            entry.link.clear();
        }
        entry.kind = if self.pending.sparse { MemberKind::Sparse } else { kind };
        entry.header_offset = self.pending.since.unwrap_or(offset);
        entry.mode = header.mode();
        entry.mtime = header.mtime();
        self.pending.clear();

        if kind == MemberKind::Sparse && header.sparse_map_continues() {
            self.state = State::SparseMap { blocks: 0 };
            return Ok(Signal::Skipped);
        }
        Ok(self.begin_payload())
    }

    /// Reads only the flag in each map block that announces another block. The extents themselves
    /// are not interpreted.
    fn read_sparse_map(&mut self, block: &Block, blocks: u32) -> Result<Signal, TarError> {
        let limit = self.limits.sparse_map_blocks_max;
        if blocks >= limit {
            let entry = self.entry.printable_path();
            return Err(TarError::SparseMapTooLong { offset: self.offset, entry, limit });
        }
        if header::sparse_block_continues(block) {
            self.state = State::SparseMap { blocks: blocks + 1 };
            return Ok(Signal::Skipped);
        }
        Ok(self.begin_payload())
    }

    fn begin_payload(&mut self) -> Signal {
        self.entries += 1;
        self.entry.payload_offset = self.offset;
        self.state = match self.entry.size {
            0 => State::Header,
            left => State::Payload { left },
        };
        Signal::Member
    }

    /// Returns the state that follows a payload or padding.
    fn after_content(&self) -> State {
        if self.padding_bytes() > 0 { State::Padding } else { State::Header }
    }

    fn padding_bytes(&self) -> u64 {
        self.offset.next_multiple_of(BLOCK_BYTES as u64) - self.offset
    }
}

impl Entry {
    fn member(&self) -> Member<'_> {
        Member {
            kind: self.kind,
            path: &self.path,
            link: &self.link,
            size: self.size,
            header_offset: self.header_offset,
            payload_offset: self.payload_offset,
            mode: self.mode,
            mtime: self.mtime,
        }
    }

    fn printable_path(&self) -> String {
        printable(&self.path)
    }
}

/// Returns how many of the bytes in `rest` lie within the next `bytes`.
fn at_most(rest: &[u8], bytes: u64) -> usize {
    usize::try_from(bytes).map_or(rest.len(), |bytes| bytes.min(rest.len()))
}

fn or_all(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |any, byte| any | byte)
}

/// The error for an overlong path shows only its beginning.
const SHOWN_PATH_BYTES: usize = 256;
