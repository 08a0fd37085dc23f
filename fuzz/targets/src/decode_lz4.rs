//! Target for lz4, end to end.

use unsnap_decode::Format;

use crate::{
    INPUT_BYTES_MAX,
    engines::Setup,
    reference::{self, Reference},
};

/// Takes an archive of lz4 frames. It is decoded exactly if all its frames are complete and
/// `lz4_flex` decodes each of them. The bytes returned before a refusal are those of `lz4_flex`.
///
/// Allowed: our limits may refuse more.
pub fn decode_lz4(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX || Format::detect(data) != Some(Format::Lz4) {
        return;
    }
    let Reference { bytes, good, .. } = reference::lz4(data);
    let mut verdict = None;
    for (span_bytes, segment_bytes) in [(1 << 20, None), (1, Some(1000)), (7, Some(100_000))] {
        let setup = Setup { span_bytes, segment_bytes, ..Setup::default() };
        let outcome = setup.decode(data);
        let common = outcome.bytes.len().min(bytes.len());
        assert!(outcome.bytes[..common] == bytes[..common], "{setup:?}: the bytes differ");
        if outcome.is_limit() {
            continue;
        }
        assert_eq!(outcome.result.is_ok(), good, "{setup:?}: {:?}", outcome.result);
        assert!(outcome.bytes.len() <= bytes.len(), "{setup:?}: too many bytes");
        if good {
            assert_eq!(outcome.bytes.len(), bytes.len(), "{setup:?}");
        }
        let expected = *verdict.get_or_insert_with(|| outcome.verdict());
        assert_eq!(outcome.verdict(), expected, "{setup:?}: {:?}", outcome.result);
    }
}
