//! What blocks hand on to those after them, over the borders of chunks.

use crate::support::{Encoding, Kind, Random, content, decodes, in_chunks};

/// Modes of the blocks of one frame.
#[derive(Debug, Default)]
struct Modes {
    treeless: usize,
    repeated_tables: usize,
    compressed: usize,
}

/// Counts blocks that use what earlier blocks have described.
fn modes(frame: &[u8]) -> Modes {
    let mut modes = Modes::default();
    let mut rest = &frame[header_bytes(frame)..];
    loop {
        let header = u32::from_le_bytes([rest[0], rest[1], rest[2], 0]);
        let (kind, size) = ((header >> 1) & 3, (header >> 3) as usize);
        let block = &rest[3..];
        if kind == 2 {
            modes.compressed += 1;
            modes.treeless += usize::from(block[0] & 3 == 3);
            modes.repeated_tables += usize::from(keeps_a_table(&block[..size]));
        }
        if header & 1 == 1 {
            return modes;
        }
        rest = &block[if kind == 1 { 1 } else { size }..];
    }
}

fn header_bytes(frame: &[u8]) -> usize {
    use unsnap_zstd::{FrameStart, frame_start};
    match frame_start(frame) {
        Ok(FrameStart::Frame(header)) => header.header_bytes,
        other => panic!("{other:?}"),
    }
}

fn keeps_a_table(block: &[u8]) -> bool {
    let word = |count: usize| {
        block[..count].iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte))
    };
    let format = (block[0] >> 2) & 3;
    let literals = match (block[0] & 3, format) {
        (0, 1) => 2 + (word(2) >> 4),
        (0, 3) => 3 + (word(3) >> 4),
        (0, _) => 1 + (word(1) >> 3),
        (1, 1) => 3,
        (1, 3) => 4,
        (1, _) => 2,
        (_, 2) => 4 + (word(4) >> 18),
        (_, 3) => 5 + (word(5) >> 22),
        _ => 3 + (word(3) >> 14 & 0x3ff),
    };
    let sequences = &block[literals as usize..];
    let at = match sequences[0] {
        0 => return false,
        255 => 3,
        128.. => 2,
        _ => 1,
    };
    let modes = sequences[at];
    [6, 4, 2].into_iter().any(|shift| modes >> shift & 3 == 3)
}

#[test]
fn tables_are_carried_over_any_number_of_blocks() {
    let mut found = Modes::default();
    for (kind, level, flush_bytes) in [
        (Kind::Words, 3, 2_000),
        (Kind::Records, 1, 3_000),
        (Kind::Digits, 6, 1_500),
        (Kind::Words, 15, 900),
        (Kind::Mixed, 9, 5_000),
    ] {
        let raw = content(kind, 400_000, 21);
        let mut encoding = Encoding::level(level);
        encoding.flush_bytes = Some(flush_bytes);
        let frame = encoding.frame(&raw);
        let modes = modes(&frame);
        found.treeless += modes.treeless;
        found.repeated_tables += modes.repeated_tables;
        found.compressed += modes.compressed;
        for chunk_blocks in [1, 2, 3, 5, 8, 64] {
            for threads in [1, 3] {
                let (result, decoded) = in_chunks(&frame, threads, chunk_blocks);
                assert!(result.is_ok() && decoded == raw, "{kind:?} {chunk_blocks}: {result:?}");
            }
        }
    }
    // The test means something only if encoders do this.
    assert!(found.treeless > 50 && found.repeated_tables > 50, "{found:?}");
}

#[test]
fn offsets_are_carried_through_blocks_without_new_ones() {
    // Every record is the one before with a byte changed: all matches repeat the last offset.
    let mut random = Random(8);
    let mut record: Vec<u8> = (0..200).map(|_| random.next() as u8).collect();
    let mut raw = Vec::new();
    for _ in 0..4_000 {
        let at = random.below(record.len());
        record[at] = random.next() as u8;
        raw.extend_from_slice(&record);
    }
    for level in [1, 5, 16] {
        for flush_bytes in [250, 1_000, 60_000] {
            let mut encoding = Encoding::level(level);
            encoding.flush_bytes = Some(flush_bytes);
            decodes(&encoding.frame(&raw), &raw, &[1, 2, 4], &(level, flush_bytes));
        }
    }
}
