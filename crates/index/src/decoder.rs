//! Decoder for single frames.

use std::io::{self, BufReader, Read};

use lz4_flex::frame::FrameDecoder;
use unsnap_decode::ReadAt;
use zstd::bulk::Decompressor;

use crate::{Encoding, IndexError, plan::Unit};

/// Bytes per read when a frame is streamed.
const STREAM_READ_BYTES: usize = 1 << 20;

/// Decodes whole frames. Each thread has its own.
pub(crate) struct FrameReader {
    encoding: Encoding,
    zstd: Option<Decompressor<'static>>,
}

impl FrameReader {
    pub fn new(encoding: Encoding) -> Result<Self, IndexError> {
        let zstd = match encoding {
            Encoding::Zstd => {
                Some(Decompressor::new().map_err(|error| IndexError::SetUp(error.to_string()))?)
            }
            Encoding::Lz4 | Encoding::Plain => None,
        };
        Ok(Self { encoding, zstd })
    }

    /// Decodes a unit from its complete `compressed` bytes. The result has the length given by the
    /// table.
    pub fn decode(&mut self, unit: &Unit, compressed: &[u8]) -> Result<Vec<u8>, IndexError> {
        let wanted = usize::try_from(unit.raw.end - unit.raw.start).unwrap_or(usize::MAX);
        let mut raw = Vec::new();
        raw.try_reserve_exact(wanted).map_err(|error| IndexError::SetUp(error.to_string()))?;
        match (&mut self.zstd, self.encoding) {
            (Some(zstd), _) => {
                let decoded = zstd.decompress_to_buffer(compressed, &mut raw);
                decoded.map_err(|error| bad(unit, error.to_string()))?;
            }
            (None, Encoding::Plain) => raw.extend_from_slice(compressed),
            (None, _) => {
                let mut decoder = FrameDecoder::new(compressed).take(wanted as u64 + 1);
                decoder.read_to_end(&mut raw).map_err(|error| bad(unit, error.to_string()))?;
            }
        }
        if raw.len() == wanted {
            return Ok(raw);
        }
        Err(bad(unit, format!("it decodes to {} bytes instead of {wanted}", raw.len())))
    }
}

/// Returns the error for a unit whose frame is bad.
pub(crate) fn bad(unit: &Unit, reason: String) -> IndexError {
    IndexError::Frame { frame: unit.frame as u64, offset: unit.extent.start, reason }
}

/// Streams a frame that is too large to decode as a whole, from its beginning.
pub(crate) fn stream<'a>(
    encoding: Encoding,
    unit: &Unit,
    archive: &'a dyn ReadAt,
) -> Result<Box<dyn Read + 'a>, IndexError> {
    let part = Part { archive, at: unit.extent.start, end: unit.extent.end };
    let part = BufReader::with_capacity(STREAM_READ_BYTES, part);
    Ok(match encoding {
        Encoding::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(part);
            let decoder = decoder.map_err(|error| IndexError::SetUp(error.to_string()))?;
            Box::new(decoder.single_frame())
        }
        Encoding::Lz4 => Box::new(FrameDecoder::new(part)),
        Encoding::Plain => Box::new(part),
    })
}

/// A part of the archive, read from front to back.
struct Part<'a> {
    archive: &'a dyn ReadAt,
    at: u64,
    end: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let read = self.archive.read_at(&mut buffer[..count], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
