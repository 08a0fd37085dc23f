//! Parser of a bank file that arrives in pieces.

use super::{
    ABSENT, BankError, BankFacts, BankHash, EpochSchedule, HARD_FORKS_MAX, HardFork,
    LATTICE_HASH_BYTES, PRESENT, TAIL_BYTES_MAX,
};

/// Parses a bank file in pieces of any size, in order, and keeps the fields of [`BankFacts`].
///
/// It takes a few kilobytes, whatever the file's length. The bytes between head and tail cost
/// nothing: once the head has been parsed, only the last 2082 bytes are read.
///
/// Every list's length is compared with the room left in the file, so no length can lead beyond the
/// end of the file, and none causes an allocation.
///
/// ```
/// use unsnap_layout::{ArchiveName, BankReader};
/// # use unsnap_testkit::{archive::expected_files, spec::ArchiveSpec};
///
/// # let spec = ArchiveSpec { total_bytes: 300_000, slot: 47, ..ArchiveSpec::default() };
/// # let (_, file) = expected_files(&spec)?.find(|(path, _)| path == "snapshots/47/47").unwrap();
/// let name = ArchiveName::parse(&spec.name())?;
/// let mut reader = BankReader::new(file.len() as u64);
/// for piece in file.chunks(1000) {
///     reader.push(piece)?;
/// }
/// let facts = reader.finish()?;
/// assert_eq!((facts.slot, facts.epoch()), (47, 0));
/// let proof = facts.prove(&name)?;
/// assert!(proof.block_id.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BankReader {
    /// Declared length of the file.
    file_bytes: u64,
    /// Bytes that have arrived.
    position: u64,
    step: Step,
    /// Bytes of the file that the head's parser has read or skipped.
    walked: u64,
    /// Bytes to skip before the next step's fields. They lie within the file.
    skip: u64,
    /// The beginning of the next step's fields, if a piece ended among them.
    partial: Vec<u8>,
    head: Head,
    tail: Vec<u8>,
}

/// Sections of the head. Each has a fixed length; only lists and options lie between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Last hash index, and the tag of the last hash.
    BlockhashHead,
    /// Number of blockhashes, after the last hash.
    Blockhashes,
    /// Maximum age of blockhashes, and number of ancestors.
    Ancestors,
    /// Hash, parent hash, parent slot, and number of hard forks.
    Hashes,
    /// The next hard fork.
    HardFork,
    /// Counters, and the tag of the hashes per tick.
    Counters,
    /// Fields after the hashes per tick: from the ticks per slot to the epoch schedule.
    Clock,
    Done,
}

/// Fields parsed so far.
#[derive(Debug, Default)]
struct Head {
    hash: [u8; 32],
    parent_hash: [u8; 32],
    parent_slot: u64,
    hard_forks: Vec<HardFork>,
    /// Hard forks that are still to be read.
    hard_forks_left: u64,
    /// Whether there are too many to keep.
    has_more_hard_forks: bool,
    transaction_count: u64,
    capitalization: u64,
    genesis_unix_s: i64,
    slot: u64,
    slot_offset: u64,
    block_height: u64,
    epoch_schedule: Option<EpochSchedule>,
}

impl BankReader {
    /// Creates a reader for a file of this length, of which nothing has arrived yet.
    pub fn new(file_bytes: u64) -> Self {
        Self {
            file_bytes,
            position: 0,
            step: Step::BlockhashHead,
            walked: 0,
            skip: 0,
            partial: Vec::with_capacity(FIELDS_BYTES_MAX),
            head: Head::default(),
            tail: Vec::with_capacity(TAIL_BYTES_MAX),
        }
    }

    /// Consumes the next piece of the file. The reader is unusable after an error.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), BankError> {
        if piece.len() as u64 > self.file_bytes - self.position {
            return Err(BankError::TooLong { offset: self.file_bytes });
        }
        self.keep_tail(piece);
        self.position += piece.len() as u64;
        self.walk(piece)
    }

    /// Returns the hard forks as soon as they have arrived, which is long before the end of the file;
    /// `None` also if they are more than [`HARD_FORKS_MAX`].
    pub fn hard_forks(&self) -> Option<&[HardFork]> {
        let have_arrived = matches!(self.step, Step::Counters | Step::Clock | Step::Done);
        (have_arrived && !self.head.has_more_hard_forks).then_some(&*self.head.hard_forks)
    }

    /// Returns the fields of the file. Call it after the last piece.
    pub fn finish(self) -> Result<BankFacts, BankError> {
        if self.position < self.file_bytes {
            let (offset, expected) = (self.position, self.file_bytes);
            return Err(BankError::Truncated { offset, expected });
        }
        let Head { epoch_schedule: Some(epoch_schedule), .. } = self.head else {
            return Err(self.too_short(self.step.bytes() as u64));
        };
        // The tail must not reach into the head.
        let tail_offset = self.tail_offset().max(self.walked);
        let of_head = self.tail.len() as u64 - (self.file_bytes - tail_offset);
        let of_head = usize::try_from(of_head).expect("a part of the tail");
        let Head { hash, parent_hash, .. } = self.head;
        Ok(BankFacts {
            slot: self.head.slot,
            parent_slot: self.head.parent_slot,
            genesis_unix_s: self.head.genesis_unix_s,
            hard_forks: self.hard_forks().map(<[_]>::to_vec),
            hash: BankHash(hash),
            parent_hash: BankHash(parent_hash),
            capitalization: self.head.capitalization,
            block_height: self.head.block_height,
            transaction_count: self.head.transaction_count,
            epoch_schedule,
            slot_offset: self.head.slot_offset,
            tail_offset,
            tail: self.tail[of_head..].to_vec(),
        })
    }

    /// Returns the offset of the last bytes that are kept.
    fn tail_offset(&self) -> u64 {
        self.file_bytes.saturating_sub(TAIL_BYTES_MAX as u64)
    }

    /// Keeps the part of a piece that belongs to the file's last bytes. The piece begins at
    /// `position`.
    fn keep_tail(&mut self, piece: &[u8]) {
        let before = self.tail_offset().saturating_sub(self.position);
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        if let Some(of_tail) = piece.get(before..) {
            self.tail.extend_from_slice(of_tail);
        }
    }

    /// Continues parsing the head as far as the piece reaches.
    fn walk(&mut self, mut piece: &[u8]) -> Result<(), BankError> {
        while self.step != Step::Done {
            let passed = usize::try_from(self.skip).unwrap_or(usize::MAX).min(piece.len());
            piece = &piece[passed..];
            self.skip -= passed as u64;
            if self.skip > 0 {
                break;
            }
            let missing = self.step.bytes() - self.partial.len();
            let Some((fields, rest)) = piece.split_at_checked(missing) else {
                self.partial.extend_from_slice(piece);
                break;
            };
            if self.partial.is_empty() {
                self.read(fields)?;
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(fields);
                self.read(&whole)?;
                whole.clear();
                self.partial = whole;
            }
            piece = rest;
        }
        Ok(())
    }

    /// Reads the fields of a step, all of which have arrived.
    fn read(&mut self, fields: &[u8]) -> Result<(), BankError> {
        let mut fields = Fields { rest: fields, offset: self.walked };
        self.walked += self.step.bytes() as u64;
        self.step = match self.step {
            Step::BlockhashHead => {
                fields.skip(8); // last hash index
                let last_hash = fields.tag("the last blockhash")?;
                self.pass_over(u64::from(last_hash), 32, fields.offset, "last blockhash")?;
                Step::Blockhashes
            }
            Step::Blockhashes => {
                self.list(&mut fields, 32 + 8 + 8 + 8, "blockhashes")?;
                Step::Ancestors
            }
            Step::Ancestors => {
                fields.skip(8); // maximum age
                self.list(&mut fields, 8 + 8, "ancestors")?;
                Step::Hashes
            }
            Step::Hashes => {
                self.head.hash = fields.take();
                self.head.parent_hash = fields.take();
                self.head.parent_slot = fields.u64();
                self.begin_hard_forks(&mut fields)?
            }
            Step::HardFork => {
                let fork = HardFork { slot: fields.u64(), count: fields.u64() };
                self.head.hard_forks.push(fork);
                self.head.hard_forks_left -= 1;
                if self.head.hard_forks_left > 0 { Step::HardFork } else { Step::Counters }
            }
            Step::Counters => {
                self.head.transaction_count = fields.u64();
                fields.skip(8 + 8); // tick height, signature count
                self.head.capitalization = fields.u64();
                fields.skip(8); // maximum tick height
                let hashes_per_tick = fields.tag("the hashes per tick")?;
                self.pass_over(u64::from(hashes_per_tick), 8, fields.offset, "hashes per tick")?;
                Step::Clock
            }
            Step::Clock => {
                fields.skip(8 + 16); // ticks per slot, nanoseconds per slot
                self.head.genesis_unix_s = fields.u64().cast_signed();
                fields.skip(8 + 8); // slots per year, data length
                self.head.slot_offset = fields.offset;
                self.head.slot = fields.u64();
                fields.skip(8); // an epoch that validators ignore
                self.head.block_height = fields.u64();
                fields.skip(32 + 8 + 8); // leader, collector's fees, fee calculator
                fields.skip(33 + 8 + 66); // fee governor, collected rent, rent collector
                self.head.epoch_schedule = Some(epoch_schedule(&mut fields)?);
                Step::Done
            }
            Step::Done => Step::Done,
        };
        Ok(())
    }

    /// Reads the number of hard forks. Returns the next step: they are read, or skipped if they are
    /// too many.
    fn begin_hard_forks(&mut self, fields: &mut Fields<'_>) -> Result<Step, BankError> {
        let (offset, count) = (fields.offset, fields.u64());
        if count > HARD_FORKS_MAX {
            self.head.has_more_hard_forks = true;
            self.pass_over(count, 8 + 8, offset, "hard forks")?;
            return Ok(Step::Counters);
        }
        self.check_room(count, 8 + 8, offset, "hard forks")?;
        self.head.hard_forks_left = count;
        Ok(if count > 0 { Step::HardFork } else { Step::Counters })
    }

    /// Reads the length of a list of elements of `size` bytes and skips the elements.
    fn list(
        &mut self,
        fields: &mut Fields<'_>,
        size: u64,
        field: &'static str,
    ) -> Result<(), BankError> {
        let offset = fields.offset;
        let count = fields.u64();
        self.pass_over(count, size, offset, field)
    }

    /// Skips elements after the current fields, if the file has room for them.
    fn pass_over(
        &mut self,
        count: u64,
        size: u64,
        offset: u64,
        field: &'static str,
    ) -> Result<(), BankError> {
        self.check_room(count, size, offset, field)?;
        self.skip = count * size;
        self.walked += self.skip;
        Ok(())
    }

    /// Refuses elements after the current fields for which the file has no room.
    fn check_room(
        &self,
        count: u64,
        size: u64,
        offset: u64,
        field: &'static str,
    ) -> Result<(), BankError> {
        let limit = self.file_bytes.saturating_sub(self.walked) / size;
        if count > limit {
            return Err(BankError::TooMany { offset, field, found: count, limit });
        }
        Ok(())
    }

    fn too_short(&self, bytes: u64) -> BankError {
        BankError::TooShort {
            offset: self.walked,
            field: self.step.name(),
            expected: self.walked.saturating_add(bytes),
            found: self.file_bytes,
        }
    }
}

impl Step {
    /// Returns the length of the fields.
    const fn bytes(self) -> usize {
        match self {
            Self::BlockhashHead => 8 + 1,
            Self::Blockhashes => 8,
            Self::Ancestors | Self::HardFork => 8 + 8,
            Self::Hashes => 32 + 32 + 8 + 8,
            Self::Counters => 5 * 8 + 1,
            Self::Clock => FIELDS_BYTES_MAX,
            Self::Done => 0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::BlockhashHead | Self::Blockhashes => "blockhashes",
            Self::Ancestors => "ancestors",
            Self::Hashes => "hashes",
            Self::HardFork => "hard forks",
            Self::Counters => "counters",
            Self::Clock => "slot, fees and epoch schedule",
            Self::Done => "last fields",
        }
    }
}

fn epoch_schedule(fields: &mut Fields<'_>) -> Result<EpochSchedule, BankError> {
    let offset = fields.offset;
    let slots_per_epoch = fields.u64();
    if slots_per_epoch == 0 {
        return Err(BankError::NoSlotsInEpoch { offset });
    }
    Ok(EpochSchedule {
        slots_per_epoch,
        leader_schedule_slot_offset: fields.u64(),
        warmup: fields.tag("the warm-up of epochs")?,
        first_normal_epoch: fields.u64(),
        first_normal_slot: fields.u64(),
    })
}

/// The fields of one step, in the exact number that [`Step::bytes`] counts.
struct Fields<'a> {
    rest: &'a [u8],
    /// Offset of `rest` in the file.
    offset: u64,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.rest.split_first_chunk().expect("Step::bytes counts all fields");
        self.rest = rest;
        self.offset += N as u64;
        *field
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// Reads an option's tag or a boolean.
    fn tag(&mut self, field: &'static str) -> Result<bool, BankError> {
        let offset = self.offset;
        match self.take() {
            [ABSENT] => Ok(false),
            [PRESENT] => Ok(true),
            [found] => Err(BankError::BadTag { offset, field, found }),
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).expect("Step::bytes counts all fields");
        self.offset += bytes as u64;
    }
}

/// Length of the longest step, [`Step::Clock`]: 72 bytes up to the block height, then the leader
/// and two numbers, the fees and the rent, and the epoch schedule.
const FIELDS_BYTES_MAX: usize = 72 + 48 + 107 + EPOCH_SCHEDULE_BYTES;
const EPOCH_SCHEDULE_BYTES: usize = 8 + 8 + 1 + 8 + 8;

const _: () = assert!(TAIL_BYTES_MAX > LATTICE_HASH_BYTES, "the tail holds the lattice hash");
