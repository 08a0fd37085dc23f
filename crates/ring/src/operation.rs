//! Operations: tasks of several steps, each a state machine that is independent of the engine.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::io::Errno;
use smallvec::SmallVec;
use unsnap_arena::{Block, PAGE_BYTES, Slice};

use crate::{Call, DirectIo};

/// Number of times that one step may fail with `EINTR` or `EAGAIN`, or make no progress, before the
/// operation fails. A guess: hundreds of interruptions in a row are no accident.
const RETRIES_MAX: u32 = 1000;

/// A relative path, NUL-terminated for the kernel. Stored inline if it is as short as the name of
/// an account storage.
#[derive(Clone, PartialEq, Eq)]
pub struct RelativePath(SmallVec<[u8; 64]>);

/// A path is empty, absolute or contains a NUL byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path is empty, absolute or contains a NUL byte")]
pub struct RelativePathError;

impl RelativePath {
    /// Checks for NUL bytes, which the kernel cannot see, and for absolute paths, which it would
    /// not resolve below the directory. The open itself stops escapes by `..` or links, since it
    /// stays beneath its directory.
    pub fn new(path: &str) -> Result<Self, RelativePathError> {
        if path.is_empty() || path.starts_with('/') || path.contains('\0') {
            return Err(RelativePathError);
        }
        let mut bytes = SmallVec::with_capacity(path.len() + 1);
        bytes.extend_from_slice(path.as_bytes());
        bytes.push(0);
        Ok(Self(bytes))
    }

    /// Returns the path as the kernel expects it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

impl std::fmt::Display for RelativePath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.as_c_str().to_string_lossy())
    }
}

impl std::fmt::Debug for RelativePath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_c_str(), formatter)
    }
}

/// A task on one file, with everything that the kernel will access while it is in flight.
#[derive(Debug)]
pub enum Operation {
    /// Read a range of a file.
    Read(ReadAt),
    /// Create a file and return it open.
    Create(CreateFile),
    /// Write a range of an open file.
    Write(WriteAt),
    /// Write the end of an open file and close it.
    Finish(FinishFile),
    /// Create, write and close a file.
    WriteFile(WriteFile),
}

/// Result of a successful operation.
#[derive(Debug)]
pub enum Outcome {
    /// [`ReadAt`]: the block and the number of bytes read. Fewer than wanted means the end of the
    /// file.
    Read {
        /// The buffer that was moved in.
        block: Block,
        /// Number of valid bytes at its front.
        filled: usize,
    },
    /// [`CreateFile`]: the open file.
    Created(Arc<OwnedFd>),
    /// [`WriteAt`]: every byte was written.
    Written,
    /// [`FinishFile`] and [`WriteFile`]: the file is complete and closed.
    Finished,
    /// The same, but the file is still open, as requested by [`NewFile::keep_open`].
    Kept(OwnedFd),
}

/// The step at which an operation failed, and its error. All resources of the operation have been
/// released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {errno}")]
pub struct OpError {
    /// Common name of the system call: "open", "read", "write", ...
    pub step: &'static str,
    /// Error returned by the kernel.
    pub errno: Errno,
}

/// Reads `wanted` bytes at `offset` into `block`.
#[derive(Debug)]
pub struct ReadAt {
    file: Arc<OwnedFd>,
    offset: u64,
    block: Block,
    wanted: usize,
    align: usize,
    filled: usize,
}

impl ReadAt {
    /// Creates a read. `wanted` may be less than the block's length; the kernel may fill the rest,
    /// but those bytes do not count. For direct I/O `offset` and the block's length must be
    /// multiples of its alignment.
    ///
    /// # Panics
    /// If the block is shorter than `wanted`.
    pub fn new(
        file: Arc<OwnedFd>,
        offset: u64,
        block: Block,
        wanted: usize,
        direct: Option<DirectIo>,
    ) -> Self {
        assert!(wanted <= block.len(), "{wanted} bytes wanted in a block of {}", block.len());
        let align = direct.map_or(1, |direct| direct.offset_align.max(1));
        Self { file, offset, block, wanted, align, filled: 0 }
    }

    /// Returns the position at which to continue. For direct I/O it is the last aligned position,
    /// so that a few bytes are read again.
    fn cursor(&self) -> usize {
        self.filled - self.filled % self.align
    }
}

/// Writes `data` at `offset`.
#[derive(Debug)]
pub struct WriteAt {
    file: Arc<OwnedFd>,
    offset: u64,
    data: Slice,
    align: usize,
    written: usize,
}

impl WriteAt {
    /// Creates a write. For direct I/O `offset` and the length of `data` must be multiples of its
    /// offset alignment, and the address of `data` a multiple of its memory alignment.
    pub fn new(file: Arc<OwnedFd>, offset: u64, data: Slice, direct: Option<DirectIo>) -> Self {
        let align = direct.map_or(1, |direct| direct.offset_align.max(1));
        Self { file, offset, data, align, written: 0 }
    }

    fn cursor(&self) -> usize {
        self.written - self.written % self.align
    }
}

/// A file to create. It is opened only below `directory` (`RESOLVE_BENEATH`, no symbolic links) and
/// must not exist (`O_EXCL`).
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Directory that `path` is relative to.
    pub directory: Arc<OwnedFd>,
    /// Path of the file.
    pub path: RelativePath,
    /// Permission bits.
    pub mode: u32,
    /// Set `mode` again after the open, because the process's umask or a default ACL may clear
    /// bits.
    pub force_mode: bool,
    /// Open for direct I/O with this alignment.
    pub direct: Option<DirectIo>,
    /// Open for reading too, and return the descriptor when the file is complete
    /// ([`Outcome::Kept`]) instead of closing it. It is in direct mode if the file was opened for
    /// direct I/O and consists of whole blocks.
    pub keep_open: bool,
}

/// Creates a file and returns it open for writing.
#[derive(Debug)]
pub struct CreateFile {
    new: NewFile,
    /// The open file, once its mode is to be set.
    file: Option<OwnedFd>,
}

impl CreateFile {
    /// Creates the operation.
    pub fn new(new: NewFile) -> Self {
        Self { new, file: None }
    }
}

/// Writes the end of a file, then closes it. All other writes must have completed.
///
/// Direct I/O writes whole blocks, so the end of a file that is less than a block goes through the
/// page cache. Rounding it up and truncating the file was tried: the file system then read the last
/// block back and wrote it again, a read and a write for each file.
#[derive(Debug)]
pub struct FinishFile {
    file: Option<Arc<OwnedFd>>,
    tail: Option<Tail>,
    keep_open: bool,
}

impl FinishFile {
    /// Creates the operation. `tail` is the end of a file that was written by direct I/O, and its
    /// offset; `None` if nothing is left to be written. `keep_open` returns the descriptor instead
    /// of closing it.
    pub fn new(file: Arc<OwnedFd>, tail: Option<(u64, Slice)>, keep_open: bool) -> Self {
        let tail = tail.map(|(offset, data)| Tail {
            write: WriteAt::new(Arc::clone(&file), offset, data, None),
            cached: false,
        });
        Self { file: Some(file), tail, keep_open }
    }
}

/// The end of a file that direct I/O cannot write.
#[derive(Debug)]
struct Tail {
    write: WriteAt,
    /// Whether the descriptor has left direct mode.
    cached: bool,
}

/// Creates, writes and closes a file that consists of one write.
#[derive(Debug)]
pub struct WriteFile {
    create: CreateFile,
    rest: WriteFileRest,
}

#[derive(Debug)]
enum WriteFileRest {
    /// Not open yet.
    Waiting {
        data: Slice,
    },
    /// `tail` is what follows the bytes that are being written.
    Writing {
        write: WriteAt,
        tail: Option<(u64, Slice)>,
    },
    Finishing(FinishFile),
    Done,
}

impl WriteFile {
    /// Creates the operation. `data` is the whole content. For direct I/O its address must be a
    /// multiple of the memory alignment; only its whole blocks of 4096 bytes are written directly.
    /// Empty `data` creates an empty file.
    pub fn new(new: NewFile, data: Slice) -> Self {
        Self { create: CreateFile::new(new), rest: WriteFileRest::Waiting { data } }
    }

    /// Returns the first step for the content of the open file.
    fn begin(&self, file: OwnedFd, data: &Slice) -> WriteFileRest {
        let NewFile { direct, keep_open, .. } = self.create.new;
        let tail_bytes = if direct.is_some() { data.len() % PAGE_BYTES } else { 0 };
        let whole = data.len() - tail_bytes;
        let tail = (tail_bytes > 0).then(|| (whole as u64, data.slice(whole..data.len())));
        let file = Arc::new(file);
        if whole == 0 {
            return WriteFileRest::Finishing(FinishFile::new(file, tail, keep_open));
        }
        let write = WriteAt::new(file, 0, data.slice(..whole), direct);
        WriteFileRest::Writing { write, tail }
    }
}

/// One system call's worth of work, borrowed from the operation that wants it.
pub(crate) enum Step<'op> {
    Open {
        new: &'op NewFile,
    },
    SetMode {
        file: BorrowedFd<'op>,
        mode: u32,
    },
    /// Leave direct mode. It never waits.
    LeaveDirect {
        file: BorrowedFd<'op>,
    },
    Read {
        file: BorrowedFd<'op>,
        offset: u64,
        buffer: &'op mut [u8],
        /// The read goes through the page cache, from which the processor copies.
        copies: bool,
    },
    Write {
        file: BorrowedFd<'op>,
        offset: u64,
        buffer: &'op [u8],
    },
    Close {
        file: OwnedFd,
    },
    /// No system call: there is nothing to close, because another operation still refers to the
    /// file or it is to stay open.
    Nothing,
}

impl Step<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::SetMode { .. } => "chmod",
            Self::LeaveDirect { .. } => "fcntl",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Close { .. } | Self::Nothing => "close",
        }
    }

    /// Returns the kind of system call; `None` if the step makes none.
    pub(crate) fn call(&self) -> Option<Call> {
        Some(match self {
            Self::Open { .. } => Call::Create,
            Self::SetMode { .. } => Call::SetMode,
            Self::LeaveDirect { .. } => Call::SetFlags,
            Self::Read { .. } => Call::Read,
            Self::Write { .. } => Call::Write,
            Self::Close { .. } => Call::Close,
            Self::Nothing => return None,
        })
    }
}

/// Result of a successful step.
pub(crate) enum StepDone {
    Nothing,
    Count(usize),
    File(OwnedFd),
}

/// State of an operation after a step.
enum Progress {
    Again,
    Stalled,
    Done(Outcome),
}

/// An operation in flight, as kept in an engine's slab.
pub(crate) struct InFlight {
    pub(crate) token: u64,
    operation: Operation,
    retries: u32,
    step_name: &'static str,
    /// The kernel returned `EINTR` or `EAGAIN`: from now on a kernel worker executes the steps.
    pub(crate) force_async: bool,
}

impl InFlight {
    pub(crate) fn new(token: u64, operation: Operation) -> Self {
        Self { token, operation, retries: 0, step_name: "start", force_async: false }
    }

    /// Returns whether the current step is an open, whose result is a descriptor.
    pub(crate) fn is_opening(&self) -> bool {
        self.step_name == "open"
    }

    /// Returns whether the transfers of the current step bypass the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        match &self.operation {
            Operation::Read(read) => read.align > 1,
            Operation::Write(write)
            | Operation::WriteFile(WriteFile {
                rest: WriteFileRest::Writing { write, .. }, ..
            }) => write.align > 1,
            Operation::Create(_) | Operation::Finish(_) | Operation::WriteFile(_) => false,
        }
    }

    /// Returns the next step. Every call to `step` must be followed by one to `complete`.
    pub(crate) fn step(&mut self) -> Step<'_> {
        let step = self.operation.step();
        self.step_name = step.name();
        step
    }

    /// Takes the result of a step. Returns the operation's result when there are no more steps.
    pub(crate) fn complete(
        &mut self,
        result: Result<StepDone, Errno>,
    ) -> Option<Result<Outcome, OpError>> {
        let progress = match result {
            Ok(done) => self.operation.complete(done),
            // On Linux an interrupted close has closed the descriptor. Every other step is retried.
            Err(Errno::INTR) if self.step_name == "close" => {
                self.operation.complete(StepDone::Nothing)
            }
            Err(Errno::INTR | Errno::AGAIN) => {
                self.force_async = true;
                Ok(Progress::Stalled)
            }
            Err(errno) => Err(errno),
        };
        let fail = |errno| Some(Err(OpError { step: self.step_name, errno }));
        match progress {
            Ok(Progress::Done(outcome)) => Some(Ok(outcome)),
            Ok(Progress::Again) => {
                self.retries = 0;
                None
            }
            Ok(Progress::Stalled) => {
                self.retries += 1;
                if self.retries > RETRIES_MAX { fail(Errno::AGAIN) } else { None }
            }
            Err(errno) => fail(errno),
        }
    }
}

impl Operation {
    fn step(&mut self) -> Step<'_> {
        match self {
            Self::Read(read) => {
                let cursor = read.cursor();
                Step::Read {
                    file: read.file.as_fd(),
                    offset: read.offset + cursor as u64,
                    buffer: &mut read.block[cursor..],
                    copies: read.align == 1,
                }
            }
            Self::Write(write) => write.step(),
            Self::Create(create) => create.step(),
            Self::Finish(finish) => finish.step(),
            Self::WriteFile(whole) => match &mut whole.rest {
                WriteFileRest::Waiting { .. } => whole.create.step(),
                WriteFileRest::Writing { write, .. } => write.step(),
                WriteFileRest::Finishing(finish) => finish.step(),
                WriteFileRest::Done => Step::Nothing,
            },
        }
    }

    fn complete(&mut self, done: StepDone) -> Result<Progress, Errno> {
        match self {
            Self::Read(_) => {
                // The block moves out with the outcome; a placeholder read is never stepped again.
                let Self::Read(read) = self else { return Err(Errno::INVAL) };
                let count = done.count()?;
                let before = read.filled;
                read.filled = (read.cursor() + count).min(read.block.len());
                // No progress means end of file, be it zero bytes or the same short tail read
                // again.
                if read.filled < read.wanted && read.filled > before {
                    return Ok(Progress::Again);
                }
                let filled = read.filled.max(before).min(read.wanted);
                let block = read.block.split_to(read.block.len());
                Ok(Progress::Done(Outcome::Read { block, filled }))
            }
            Self::Write(write) => Ok(match write.complete(&done)? {
                WriteProgress::Again => Progress::Again,
                WriteProgress::Stalled => Progress::Stalled,
                WriteProgress::Complete => Progress::Done(Outcome::Written),
            }),
            Self::Create(create) => Ok(match create.complete(done)? {
                None => Progress::Again,
                Some(file) => Progress::Done(Outcome::Created(Arc::new(file))),
            }),
            Self::Finish(finish) => finish.complete(&done),
            Self::WriteFile(whole) => whole.complete(done),
        }
    }
}

enum WriteProgress {
    Again,
    Stalled,
    Complete,
}

impl WriteAt {
    fn step(&mut self) -> Step<'_> {
        let cursor = self.cursor();
        Step::Write {
            file: self.file.as_fd(),
            offset: self.offset + cursor as u64,
            buffer: &self.data[cursor..],
        }
    }

    fn complete(&mut self, done: &StepDone) -> Result<WriteProgress, Errno> {
        let count = done.count()?;
        if count == 0 && !self.data.is_empty() {
            // A write of nothing would be repeated for ever.
            return Err(Errno::IO);
        }
        let before = self.written;
        self.written = self.cursor() + count;
        if self.written >= self.data.len() {
            return Ok(WriteProgress::Complete);
        }
        if self.written > before { Ok(WriteProgress::Again) } else { Ok(WriteProgress::Stalled) }
    }
}

impl CreateFile {
    fn step(&mut self) -> Step<'_> {
        match &self.file {
            Some(file) => Step::SetMode { file: file.as_fd(), mode: self.new.mode },
            None => Step::Open { new: &self.new },
        }
    }

    /// Returns the open file after the last step.
    fn complete(&mut self, done: StepDone) -> Result<Option<OwnedFd>, Errno> {
        if let Some(file) = self.file.take() {
            return Ok(Some(file));
        }
        let StepDone::File(file) = done else { return Err(Errno::BADF) };
        if self.new.force_mode {
            self.file = Some(file);
            return Ok(None);
        }
        Ok(Some(file))
    }
}

impl FinishFile {
    fn step(&mut self) -> Step<'_> {
        match &mut self.tail {
            Some(Tail { write, cached: false }) => Step::LeaveDirect { file: write.file.as_fd() },
            Some(tail) => tail.write.step(),
            None if self.keep_open => Step::Nothing,
            None => match self.file.take().and_then(Arc::into_inner) {
                Some(file) => Step::Close { file },
                None => Step::Nothing,
            },
        }
    }

    fn complete(&mut self, done: &StepDone) -> Result<Progress, Errno> {
        match &mut self.tail {
            Some(tail) if !tail.cached => tail.cached = true,
            Some(tail) => match tail.write.complete(done)? {
                WriteProgress::Again => {}
                WriteProgress::Stalled => return Ok(Progress::Stalled),
                // It refers to the file, which is closed by its last owner.
                WriteProgress::Complete => self.tail = None,
            },
            None => {
                // Without `keep_open` the file has been closed.
                let kept = self.file.take().and_then(Arc::into_inner);
                return Ok(Progress::Done(kept.map_or(Outcome::Finished, Outcome::Kept)));
            }
        }
        Ok(Progress::Again)
    }
}

impl WriteFile {
    fn complete(&mut self, done: StepDone) -> Result<Progress, Errno> {
        self.rest = match std::mem::replace(&mut self.rest, WriteFileRest::Done) {
            WriteFileRest::Waiting { data } => match self.create.complete(done)? {
                None => WriteFileRest::Waiting { data },
                Some(file) => self.begin(file, &data),
            },
            WriteFileRest::Writing { mut write, tail } => match write.complete(&done)? {
                WriteProgress::Complete => {
                    let keep_open = self.create.new.keep_open;
                    WriteFileRest::Finishing(FinishFile::new(write.file, tail, keep_open))
                }
                WriteProgress::Again => WriteFileRest::Writing { write, tail },
                WriteProgress::Stalled => {
                    self.rest = WriteFileRest::Writing { write, tail };
                    return Ok(Progress::Stalled);
                }
            },
            WriteFileRest::Finishing(mut finish) => {
                let progress = finish.complete(&done)?;
                self.rest = WriteFileRest::Finishing(finish);
                return Ok(progress);
            }
            WriteFileRest::Done => return Ok(Progress::Done(Outcome::Finished)),
        };
        Ok(Progress::Again)
    }
}

impl StepDone {
    pub(crate) fn count(&self) -> Result<usize, Errno> {
        match self {
            Self::Count(count) => Ok(*count),
            _ => Err(Errno::INVAL),
        }
    }
}
