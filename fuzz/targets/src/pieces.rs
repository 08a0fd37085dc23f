//! Division of one input into pieces.

/// Returns `data` in pieces whose lengths depend on `by`: of one byte, of a few, of many, and
/// mixed.
pub(crate) fn pieces(data: &[u8], by: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = data;
    let mut state = u32::from(by);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // A simple number generator is enough: every length up to 2^(by % 12) occurs.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (state >> 16) as usize % (1 << (by % 12)) + 1;
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        Some(piece)
    })
}
