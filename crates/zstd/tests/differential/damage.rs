//! Damaged frames: refused by both, or decoded to the same bytes.

use unsnap_zstd::{Defect, Error};
use zstd_safe::CParameter;

use crate::support::{Encoding, KINDS, Kind, Random, compare, content, ours};

/// Returns small frames of every kind of content and many encodings.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (index, kind) in KINDS.into_iter().enumerate() {
        for (level, len, flush) in [(1, 400, None), (5, 2_000, Some(300)), (19, 6_000, Some(2_500))]
        {
            let raw = content(kind, len, index as u64);
            let mut encoding = Encoding::level(level)
                .with(CParameter::ChecksumFlag(false))
                .with(CParameter::WindowLog(12));
            encoding.flush_bytes = flush;
            encoding.size_unknown = index % 2 == 0;
            frames.push(encoding.frame(&raw));
        }
    }
    frames
}

#[test]
fn every_prefix_is_refused() {
    for (index, frame) in frames().into_iter().enumerate() {
        for len in 1..frame.len() {
            let (result, _) = ours(&frame[..len], 1 + usize::from(len % 64 == 0));
            let cut = matches!(result, Err(Error::Truncated { .. }));
            assert!(cut, "frame {index}, {len} bytes: {result:?}");
        }
    }
}

#[test]
fn flipped_bits_and_bytes() {
    let mut random = Random(1);
    let mut decoded = 0;
    for (index, frame) in frames().into_iter().enumerate() {
        for round in 0..800 {
            let mut damaged = frame.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(damaged.len());
                match random.below(3) {
                    0 => damaged[at] ^= 1 << random.below(8),
                    1 => damaged[at] = random.next() as u8,
                    _ => damaged[at] = damaged[at].wrapping_add(random.pick(&[1, 255])),
                }
            }
            let threads = 1 + usize::from(round % 16 == 0);
            decoded += u32::from(compare(&damaged, threads, &(index, round)));
        }
    }
    assert!(decoded > 100, "damage to raw bytes goes unnoticed: {decoded}");
}

#[test]
fn removed_inserted_and_moved_parts() {
    let mut random = Random(2);
    let frames = frames();
    for round in 0..8_000 {
        let mut damaged = frames[random.below(frames.len())].clone();
        let at = random.below(damaged.len());
        let count = 1 + random.below(30);
        let end = (at + count).min(damaged.len());
        match random.below(3) {
            0 => drop(damaged.drain(at..end)),
            1 => drop(damaged.splice(at..at, damaged[at..end].to_vec())),
            _ => {
                let other = &frames[random.below(frames.len())];
                let from = random.below(other.len());
                let until = (from + count).min(other.len());
                damaged.splice(at..end, other[from..until].iter().copied());
            }
        }
        compare(&damaged, 1, &round);
    }
}

/// Returns a frame of an undeclared size with a 1 KiB window and these blocks.
fn frame(blocks: &[(u32, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    for (index, &(kind, content)) in blocks.iter().enumerate() {
        let last = u32::from(index + 1 == blocks.len());
        let header = last | kind << 1 | (content.len() as u32) << 3;
        bytes.extend(&header.to_le_bytes()[..3]);
        bytes.extend(content);
    }
    bytes
}

fn defect(compressed: &[u8]) -> Defect {
    match ours(compressed, 1).0 {
        Err(Error::Corrupt { defect, .. }) => defect,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_that_are_not_in_force() {
    // Four literals by the table of no block; one sequence with all tables of no block.
    let treeless = frame(&[(2, &[0b0100_0011, 0x40, 0, 1, 0])]);
    assert_eq!(defect(&treeless), Defect::NoHuffmanTable);
    let repeat = frame(&[(2, &[0b0010_0000, 1, 2, 3, 4, 1, 0b1111_1100, 1])]);
    assert_eq!(defect(&repeat), Defect::NoCodeTable);
    for damaged in [treeless, repeat] {
        assert!(!compare(&damaged, 1, &"no table"));
    }
}

#[test]
fn matches_before_the_frame_and_before_the_window() {
    // Literals, then one sequence with repeated codes: lengths and offset as single codes.
    let block = |literals: u8, offset_code: u8, stream: &[u8]| {
        let mut block = vec![literals << 3];
        block.extend((0..literals).map(|index| index * 3));
        block.extend([1, 0b0101_0100, literals.min(15), offset_code, 0]);
        block.extend(stream);
        block
    };
    // Offset code 3, three bits 011: value 11, offset 8, more than the four literals.
    let before = frame(&[(2, &block(4, 3, &[0b1011]))]);
    assert_eq!(defect(&before), Defect::OffsetBeyondStart);
    let good = frame(&[(2, &block(8, 3, &[0b1011]))]);
    assert!(compare(&good, 1, &"within the frame"));
    // The same after a frame: its bytes are out of reach.
    let mut second = good.clone();
    second.extend(&before);
    assert_eq!(defect(&second), Defect::OffsetBeyondStart);
    // 2 KiB of raw blocks, then an offset of 1,500 in a window of 1 KiB: code 10, bits 01 1101 1111.
    let raw = [7; 1024];
    let window = frame(&[(0, &raw), (0, &raw), (2, &block(4, 10, &[0b1101_1111, 0b101]))]);
    assert_eq!(defect(&window), Defect::OffsetBeyondWindow);
    for damaged in [before, second, window] {
        assert!(!compare(&damaged, 1, &"offset"));
    }
}

#[test]
fn checksums_and_sizes_that_do_not_match() {
    let raw = content(Kind::Words, 50_000, 3);
    let good = Encoding::level(3).with(CParameter::ChecksumFlag(true)).frame(&raw);
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(defect(&damaged), Defect::Checksum);
    assert!(!compare(&damaged, 2, &"checksum"));
    // The size is in the bytes 5 to 6 of a frame of less than 64 KiB.
    let mut damaged = good.clone();
    damaged[5] ^= 1;
    assert!(matches!(defect(&damaged), Defect::ContentSize { decoded: 50_000, .. }));
    assert!(!compare(&damaged, 2, &"size"));
}

#[test]
fn errors_name_frame_block_and_offsets() {
    let raw = content(Kind::Noise, 400_000, 3);
    let good = Encoding::level(1).frame(&raw);
    for threads in [1, 2] {
        let mut stream = good.clone();
        stream.extend(&good);
        // The third block's type becomes the reserved one.
        let at = good.len() + (good.len() - 400_000 - 4 * 3) + 2 * (3 + (128 << 10));
        stream[at] |= 6;
        let (result, decoded) = ours(&stream, threads);
        let Err(Error::Corrupt { at: place, defect: Defect::BlockType }) = result else {
            panic!("{result:?}")
        };
        assert_eq!((place.frame, place.block), (1, 2));
        assert_eq!((place.compressed_offset, place.raw_offset), (at as u64, 400_000 + (256 << 10)));
        assert_eq!(decoded.len(), 400_000 + (256 << 10));
    }
}
