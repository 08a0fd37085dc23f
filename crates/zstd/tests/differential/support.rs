//! Contents, frames, and the comparison of two decoders.

use unsnap_zstd::{Decoder, Defect, Error};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

/// Largest window in these tests, as a power of two.
pub const WINDOW_LOG_MAX: u32 = 27;

/// Numbers from a seed.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// Kinds of content. Together they make an encoder use every mode of literals and tables.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Account-like records: keys that repeat, small numbers, zeros.
    Records,
    /// Words with a skewed distribution.
    Words,
    /// Bytes without structure.
    Noise,
    /// One byte.
    Same,
    /// Few values, without matches worth coding.
    Digits,
    /// Short patterns with small distances.
    Patterns,
    /// Parts of all kinds.
    Mixed,
}

pub const KINDS: [Kind; 7] = [
    Kind::Records,
    Kind::Words,
    Kind::Noise,
    Kind::Same,
    Kind::Digits,
    Kind::Patterns,
    Kind::Mixed,
];

/// Returns content of `len` bytes.
pub fn content(kind: Kind, len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = Vec::with_capacity(len + 256);
    let keys: Vec<[u8; 32]> =
        (0..300).map(|_| std::array::from_fn(|_| random.next() as u8)).collect();
    while bytes.len() < len {
        match kind {
            Kind::Records => {
                let common = random.below(10);
                bytes.extend(keys[common]);
                bytes.extend(keys[random.below(300)]);
                bytes.extend((random.next() % 100_000).to_le_bytes());
                bytes.extend([0; 40]);
                if random.below(4) == 0 {
                    bytes.extend(random.next().to_le_bytes());
                }
            }
            Kind::Words => {
                let index = random.below(40) * random.below(40);
                bytes.extend(format!("word{index} and then {} ", index % 7).bytes());
            }
            Kind::Noise => bytes.extend(random.next().to_le_bytes()),
            Kind::Same => bytes.extend([0x5a; 64]),
            Kind::Digits => bytes.push(random.pick(b"0011223345678999abc")),
            Kind::Patterns => {
                let period = 1 + random.below(20);
                let pattern: Vec<u8> = (0..period).map(|_| random.next() as u8).collect();
                let count = 3 + random.below(300);
                bytes.extend(pattern.iter().cycle().take(count));
            }
            Kind::Mixed => {
                let kind = random.pick(&KINDS[..6]);
                let count = 1 + random.below(60_000);
                let seed = random.below(5) as u64;
                bytes.extend(content(kind, count, seed));
            }
        }
    }
    bytes.truncate(len);
    bytes
}

/// How to compress.
#[derive(Clone, Debug, Default)]
pub struct Encoding {
    pub parameters: Vec<CParameter>,
    /// Blocks are ended after about this many bytes.
    pub flush_bytes: Option<usize>,
    /// The frame does not declare its size.
    pub size_unknown: bool,
}

impl Encoding {
    pub fn level(level: i32) -> Self {
        Self { parameters: vec![CParameter::CompressionLevel(level)], ..Self::default() }
    }

    pub fn with(mut self, parameter: CParameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Returns one frame.
    pub fn frame(&self, raw: &[u8]) -> Vec<u8> {
        let mut context = CCtx::create();
        for &parameter in &self.parameters {
            context.set_parameter(parameter).unwrap();
        }
        if !self.size_unknown {
            context.set_pledged_src_size(Some(raw.len() as u64)).unwrap();
        }
        let flushes = raw.len() / self.flush_bytes.unwrap_or(usize::MAX).max(1);
        let mut frame = vec![0; zstd_safe::compress_bound(raw.len()) + 1024 + flushes * 64];
        let mut output = OutBuffer::around(&mut frame[..]);
        let mut random = Random(raw.len() as u64);
        let mut rest = raw;
        while !rest.is_empty() {
            let bytes = self.flush_bytes.map_or(rest.len(), |bytes| 1 + random.below(2 * bytes));
            let (part, after) = rest.split_at(bytes.min(rest.len()));
            let mut input = InBuffer::around(part);
            while input.pos() < part.len() {
                context.compress_stream(&mut output, &mut input).unwrap();
            }
            if self.flush_bytes.is_some() {
                while context.flush_stream(&mut output).unwrap() > 0 {}
            }
            rest = after;
        }
        while context.end_stream(&mut output).unwrap() > 0 {}
        let len = output.pos();
        frame.truncate(len);
        frame
    }
}

/// Decodes with our decoder.
pub fn ours(compressed: &[u8], threads: usize) -> (Result<(), Error>, Vec<u8>) {
    in_chunks(compressed, threads, usize::MAX)
}

/// Decodes with our decoder, in chunks of so many blocks.
pub fn in_chunks(
    compressed: &[u8],
    threads: usize,
    chunk_blocks: usize,
) -> (Result<(), Error>, Vec<u8>) {
    let mut raw = Vec::new();
    let decoder =
        Decoder::new(threads).window_bytes_max(1 << WINDOW_LOG_MAX).chunk_blocks_max(chunk_blocks);
    let result = decoder.decode(compressed, &mut raw).map(|summary| {
        assert_eq!(summary.raw_bytes, raw.len() as u64);
        assert_eq!(summary.compressed_bytes, compressed.len() as u64);
    });
    (result, raw)
}

/// Decodes with libzstd in pieces, through its own window. Returns what was decoded in front of an
/// error, too.
fn streamed(compressed: &[u8]) -> (bool, Vec<u8>) {
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).unwrap();
    let mut raw = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut wanted = 0;
    for piece in compressed.chunks(1000) {
        let mut input = InBuffer::around(piece);
        loop {
            let before = input.pos();
            let mut output = OutBuffer::around(&mut buffer[..]);
            let Ok(hint) = context.decompress_stream(&mut output, &mut input) else {
                return (false, raw);
            };
            if input.pos() == before && output.pos() == 0 {
                break;
            }
            wanted = hint;
            raw.extend_from_slice(output.as_slice());
        }
    }
    (wanted == 0, raw)
}

/// Decodes with libzstd at once, without a window.
fn at_once(compressed: &[u8], capacity: usize) -> Option<Vec<u8>> {
    let mut raw = vec![0; capacity];
    let len = DCtx::create().decompress(&mut raw[..], compressed).ok()?;
    raw.truncate(len);
    Some(raw)
}

/// Returns whether we may refuse what libzstd decodes, for this reason.
fn stricter(error: &Error) -> bool {
    let defect = match error {
        Error::Corrupt { defect, .. } => defect,
        // If it has the whole frame and room for all of it, it needs no window.
        Error::Window { .. } => return true,
        _ => return false,
    };
    matches!(
        defect,
        // Its fast loop does not check that streams end where their symbols end.
        Defect::LiteralStream
            // It checks the window only if it has forgotten what is in front of it.
            | Defect::OffsetBeyondWindow
            // Decoding at once does not check this, decoding in pieces not if the last block is
            // empty.
            | Defect::BlockSize
            | Defect::ContentSize { .. }
            // A description that runs past the end of the block can begin again in front of it.
            | Defect::CodeTable
            | Defect::HuffmanTable
            // In pieces, an empty compressed block is like any empty block.
            | Defect::BlockEnds("literals")
    )
}

/// Compares the decoders on any bytes. Returns whether they were decoded.
pub fn compare(compressed: &[u8], threads: usize, what: &dyn std::fmt::Debug) -> bool {
    let (result, raw) = ours(compressed, threads);
    let (good, expected) = streamed(compressed);
    match result {
        Ok(()) => {
            assert!(in_chunks(compressed, threads, 1).1 == raw, "{what:?}: blocks by themselves");
            assert!(good, "{what:?}: only we decode it");
            assert!(raw == expected, "{what:?}: other bytes");
            assert_eq!(at_once(compressed, expected.len()), Some(raw), "{what:?}: at once");
            true
        }
        Err(error) => {
            // Decoded bytes in front of the damage are good.
            let common = raw.len().min(expected.len());
            assert!(raw[..common] == expected[..common], "{what:?}: other bytes before {error}");
            if good && !stricter(&error) {
                let at_once = at_once(compressed, expected.len());
                assert!(at_once.is_none(), "{what:?}: only we refuse it: {error}");
            }
            false
        }
    }
}

/// Checks that a frame of `raw` is decoded, by some numbers of threads.
pub fn decodes(frame: &[u8], raw: &[u8], threads: &[usize], what: &dyn std::fmt::Debug) {
    for &threads in threads {
        let (result, decoded) = ours(frame, threads);
        if let Err(error) = result {
            panic!("{what:?}, {threads} threads: {error}");
        }
        assert!(decoded == raw, "{what:?}, {threads} threads: other bytes");
    }
    // Each block by itself: tables and offsets come from the chunks in front of it.
    let (result, decoded) = in_chunks(frame, 2, 1);
    assert!(result.is_ok() && decoded == raw, "{what:?}, blocks by themselves: {result:?}");
}
