//! The walk over a bank file that comes in pieces.

use super::{
    ABSENT, BankError, BankFacts, BankHash, EpochSchedule, LATTICE_HASH_BYTES, PRESENT,
    TAIL_BYTES_MAX,
};

/// Reads a bank file in pieces of any size, in order, and remembers what [`BankFacts`] has.
///
/// It takes some kilobytes, whatever the file's length. What lies between head and tail costs
/// nothing: once the head has been read, only the last 2082 bytes are touched.
///
/// Every list's length is compared with what the file has room for, so no length can lead beyond
/// the file's end, and none makes anything grow.
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
    /// Length of the file.
    file_bytes: u64,
    /// Bytes that have come.
    position: u64,
    step: Step,
    /// Bytes of the file that the head has been read from, or passed over.
    walked: u64,
    /// Bytes to pass over before the next step's fields. They lie within the file.
    skip: u64,
    /// The beginning of the next step's fields, if a piece ended amid them.
    partial: Vec<u8>,
    head: Head,
    tail: Vec<u8>,
}

/// Stretches of the head, each of a fixed length, with only lists and options in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Last hash index, and whether there is a last hash.
    BlockhashHead,
    /// Number of blockhashes, after the last hash.
    Blockhashes,
    /// Greatest age of blockhashes, and number of ancestors.
    Ancestors,
    /// Hash, parent hash, parent slot, and number of hard forks.
    Hashes,
    /// Counters, and whether there are hashes per tick.
    Counters,
    /// From the ticks per slot, after the hashes per tick, to the epoch schedule.
    Clock,
    Done,
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Head {
    hash: [u8; 32],
    parent_hash: [u8; 32],
    parent_slot: u64,
    transaction_count: u64,
    capitalization: u64,
    slot: u64,
    slot_offset: u64,
    block_height: u64,
    epoch_schedule: Option<EpochSchedule>,
}

impl BankReader {
    /// A reader for a file of this length, of which nothing has come yet.
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

    /// Takes the next piece of the file. After an error the reader is of no more use.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), BankError> {
        if piece.len() as u64 > self.file_bytes - self.position {
            return Err(BankError::TooLong { offset: self.file_bytes });
        }
        self.keep_tail(piece);
        self.position += piece.len() as u64;
        self.walk(piece)
    }

    /// Says what the file held. To be called after the last piece.
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

    /// Where the last bytes begin that are to be kept.
    fn tail_offset(&self) -> u64 {
        self.file_bytes.saturating_sub(TAIL_BYTES_MAX as u64)
    }

    /// Keeps what a piece, which begins at `position`, has of the file's last bytes.
    fn keep_tail(&mut self, piece: &[u8]) {
        let before = self.tail_offset().saturating_sub(self.position);
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        if let Some(of_tail) = piece.get(before..) {
            self.tail.extend_from_slice(of_tail);
        }
    }

    /// Goes on with the head as far as a piece reaches.
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

    /// Reads the fields of a step, all of which are there.
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
                fields.skip(8); // greatest age
                self.list(&mut fields, 8 + 8, "ancestors")?;
                Step::Hashes
            }
            Step::Hashes => {
                self.head.hash = fields.take();
                self.head.parent_hash = fields.take();
                self.head.parent_slot = fields.u64();
                self.list(&mut fields, 8 + 8, "hard forks")?;
                Step::Counters
            }
            Step::Counters => {
                self.head.transaction_count = fields.u64();
                fields.skip(8 + 8); // tick height, signature count
                self.head.capitalization = fields.u64();
                fields.skip(8); // greatest tick height
                let hashes_per_tick = fields.tag("the hashes per tick")?;
                self.pass_over(u64::from(hashes_per_tick), 8, fields.offset, "hashes per tick")?;
                Step::Clock
            }
            Step::Clock => {
                // Ticks per slot, nanoseconds per slot, genesis time, slots per year, data length.
                fields.skip(8 + 16 + 8 + 8 + 8);
                self.head.slot_offset = fields.offset;
                self.head.slot = fields.u64();
                fields.skip(8); // an epoch that validators do not look at
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

    /// Reads the length of a list of elements of `size` bytes and passes over them.
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

    /// Passes over elements that follow the current fields, if the file has room for them.
    fn pass_over(
        &mut self,
        count: u64,
        size: u64,
        offset: u64,
        field: &'static str,
    ) -> Result<(), BankError> {
        let limit = self.file_bytes.saturating_sub(self.walked) / size;
        if count > limit {
            return Err(BankError::TooMany { offset, field, found: count, limit });
        }
        self.skip = count * size;
        self.walked += self.skip;
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
    /// Length of the fields.
    const fn bytes(self) -> usize {
        match self {
            Self::BlockhashHead => 8 + 1,
            Self::Blockhashes => 8,
            Self::Ancestors => 8 + 8,
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

/// Fields that lie together, as many as have been counted before.
struct Fields<'a> {
    rest: &'a [u8],
    /// Where in the file `rest` begins.
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

    /// An option's tag, or a truth value.
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

/// Length of the longest step, [`Step::Clock`]: 72 bytes to the block height, the leader and two
/// numbers, the fees and the rent, the epoch schedule.
const FIELDS_BYTES_MAX: usize = 72 + 48 + 107 + EPOCH_SCHEDULE_BYTES;
const EPOCH_SCHEDULE_BYTES: usize = 8 + 8 + 1 + 8 + 8;

const _: () = assert!(TAIL_BYTES_MAX > LATTICE_HASH_BYTES, "the tail holds the lattice hash");
