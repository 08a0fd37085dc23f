//! Target for the tar walk over arbitrary slice borders.

use crate::{INPUT_BYTES_MAX, blocks::with_checksums, walk::walk};

/// Takes a tar stream. The walk reports the same events and the same error for all divisions into
/// pieces. A truncated archive is never complete. Only zeros may follow the end.
pub fn tar_walk(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    check(data);
    let repaired = with_checksums(data);
    if repaired != data {
        check(&repaired);
    }
}

fn check(stream: &[u8]) {
    let whole = walk([stream]);
    for size in [1, 7, 511, 512, 513, 4096] {
        if size > 1 || stream.len() <= 8192 {
            assert_eq!(walk(stream.chunks(size)), whole, "pieces of {size}");
        }
    }
    // Borders depend on the stream, so that a finding is reproducible.
    let hash =
        stream.iter().fold(7, |hash, &byte| u64::wrapping_mul(hash ^ u64::from(byte), PRIME));
    let mut random = Random(hash);
    let mut pieces = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(random.below(1500).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    assert_eq!(walk(pieces), whole, "random pieces");

    let Some(end) = whole.end().and_then(|end| usize::try_from(end).ok()) else {
        assert!(whole.result.is_err(), "nothing is accepted without its end");
        return;
    };
    for cut in [0, 1, 511, 512, 513, 1024, random.below(end)] {
        let cut_walk = walk([&stream[..end.saturating_sub(1 + cut)]]);
        assert!(cut_walk.result.is_err(), "cut {cut} bytes before the end mark's last");
        assert!(whole.events.len() >= cut_walk.events.len());
    }
    assert_eq!(walk([&stream[..end]]).result, Ok(()));
    if whole.result.is_ok() {
        assert!(stream[end..].iter().all(|&byte| byte == 0));
        assert_eq!(walk([stream, &[0; 700]]).result, Ok(()));
        assert!(walk([stream, b"\0\x01"]).result.is_err(), "data after the end");
    } else {
        assert!(stream[end..].iter().any(|&byte| byte != 0));
    }
}

/// Knuth's linear congruential generator. The high bits are good enough for borders.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(PRIME).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit.max(1)
    }
}

const PRIME: u64 = 6_364_136_223_846_793_005;
