//! Independence from how the stream is cut into slices, and absence of panics for any stream.

use crate::build::{BLOCK, every_construct};
use crate::seen::{walk, walk_pieces};
use proptest::prelude::*;

#[test]
fn every_size_of_slices_gives_the_same_events() {
    let stream = every_construct();
    let whole = walk(&stream).expect("accepted");
    for size in 1..=1_100 {
        assert_eq!(walk_pieces(stream.chunks(size)).as_ref(), Ok(&whole), "slices of {size}");
    }
}

#[test]
fn a_single_cut_anywhere_gives_the_same_events() {
    let stream = every_construct();
    let whole = walk(&stream).expect("accepted");
    for cut in 0..=stream.len() {
        let (head, tail) = stream.split_at(cut);
        assert_eq!(walk_pieces([head, tail]).as_ref(), Ok(&whole), "cut at {cut}");
    }
}

proptest! {
    #[test]
    fn random_slices_give_the_same_events(sizes in prop::collection::vec(0_usize..2_000, 0..40)) {
        let stream = every_construct();
        prop_assert_eq!(walk_pieces(pieces(&stream, &sizes)), walk(&stream));
    }

    /// Damage is found or harmless, and found at the same place however the stream is cut.
    #[test]
    fn damage_gives_the_same_verdict_for_all_slices(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        sizes in prop::collection::vec(1_usize..2_000, 0..40),
    ) {
        let mut stream = every_construct();
        for (position, value) in damage {
            let position = position.index(stream.len());
            stream[position] = value;
        }
        prop_assert_eq!(walk_pieces(pieces(&stream, &sizes)), walk(&stream));
    }

    /// Blocks of the archive in random order with correct checksums reach deeper than random bytes.
    #[test]
    fn shuffled_blocks_do_not_panic(
        blocks in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let good = every_construct();
        let good: Vec<&[u8]> = good.chunks(BLOCK).collect();
        let blocks: Vec<&[u8]> = blocks.iter().map(|block| *block.get(&good)).collect();
        let stream = blocks.concat();
        prop_assert_eq!(walk_pieces(stream.chunks(100)), walk(&stream));
    }

    #[test]
    fn random_bytes_do_not_panic(stream in prop::collection::vec(any::<u8>(), 0..4_000)) {
        prop_assert!(walk(&stream).is_err());
    }
}

/// Cuts the stream into slices of these sizes, and a last one with the rest.
fn pieces<'s>(stream: &'s [u8], sizes: &[usize]) -> Vec<&'s [u8]> {
    let mut rest = stream;
    let mut pieces = Vec::new();
    for &size in sizes {
        let (piece, tail) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces.push(rest);
    pieces
}
