//! Target for our own zstd decoder.

use std::io::{self, Write};

use unsnap_zstd::{Decoder, Defect, Error};
use zstd_safe::DCtx;

use crate::{
    INPUT_BYTES_MAX,
    engines::{RAW_BYTES_MAX, WINDOW_LOG_MAX},
    reference,
};

/// Takes zstd frames, or the parts of one, from which headers are made that fit. Our decoder returns
/// what libzstd returns, by one thread and, for some, by three, or both refuse. In front of damage
/// the bytes are the same.
///
/// Allowed: we refuse what libzstd notices only sometimes. See `stricter`.
pub fn zstd_own(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    compare(data);
    compare(&framed(data));
}

fn compare(stream: &[u8]) {
    let found = reference::zstd(stream);
    let (result, bytes) = ours(stream, 1);
    match &result {
        Ok(()) => {
            assert!(found.good, "only we decode it");
            assert!(bytes == found.bytes, "other bytes");
            let mut at_once = vec![0; bytes.len()];
            let decoded = DCtx::create().decompress(&mut at_once[..], stream);
            assert_eq!(decoded, Ok(bytes.len()), "libzstd decodes it only in pieces");
            assert!(at_once == bytes, "other bytes at once");
        }
        Err(error) => {
            let common = bytes.len().min(found.bytes.len());
            assert!(bytes[..common] == found.bytes[..common], "other bytes in front of {error}");
            assert!(!found.good || stricter(error), "only we refuse it: {error}");
        }
    }
    if !is_chosen(stream) {
        return;
    }
    let (threaded, again) = ours(stream, 3);
    assert_eq!(
        threaded.map_err(|error| error.to_string()),
        result.map_err(|error| error.to_string())
    );
    assert!(again == bytes, "other bytes by three threads");
}

/// Returns whether a stream is also decoded by three threads. To start them takes ten times as long as
/// to decode it, and their orders are tried by tests of their own.
fn is_chosen(stream: &[u8]) -> bool {
    stream.iter().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte)) % 16 == 0
}

/// Returns whether we may refuse what libzstd decodes in pieces.
fn stricter(error: &Error) -> bool {
    match error {
        // What the test itself limits.
        Error::Write(_) | Error::Window { .. } => true,
        Error::Corrupt { defect, .. } => matches!(
            defect,
            // Its fast loop does not check that streams end where their symbols end.
            Defect::LiteralStream
                // It checks the window only if it has forgotten what is in front of it.
                | Defect::OffsetBeyondWindow
                // If it has a whole frame and room for it, it takes blocks of any size; if not, it
                // does not check the size of a frame whose last block is empty, and takes an empty
                // compressed block for an empty one.
                | Defect::BlockSize
                | Defect::ContentSize { .. }
                | Defect::BlockEnds("literals")
                // A description that runs past the end of its block can begin again in front of it.
                | Defect::CodeTable
                | Defect::HuffmanTable
        ),
        _ => false,
    }
}

fn ours(stream: &[u8], threads: usize) -> (Result<(), Error>, Vec<u8>) {
    let mut bytes = Limited(Vec::new());
    let decoder = Decoder::new(threads).window_bytes_max(1 << WINDOW_LOG_MAX);
    let result = decoder.decode(stream, &mut bytes).map(drop);
    (result, bytes.0)
}

/// Takes as many bytes as the reference decodes.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.0.len() + bytes.len()) as u64 > RAW_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes a frame of `data`: a byte for the window, then blocks, each with a byte for its kind and two
/// for its length. So mutations reach the content of blocks, past headers that would not fit.
pub(crate) fn framed(data: &[u8]) -> Vec<u8> {
    let Some((&window, mut rest)) = data.split_first() else { return Vec::new() };
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window % 0x60];
    loop {
        let [kind, low, high, after @ ..] = rest else {
            // An empty raw block, the last one.
            frame.extend([1, 0, 0]);
            return frame;
        };
        let kind = u32::from(kind % 3);
        let length = usize::from(u16::from_le_bytes([*low, *high])) % 0x1000;
        rest = after;
        let stored = if kind == 1 { 1 } else { length };
        let (block, after) = rest.split_at(stored.min(rest.len()));
        rest = after;
        let size = if kind == 1 { length } else { block.len() };
        let header = u32::try_from(size).unwrap_or(0) << 3 | kind << 1;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
}
