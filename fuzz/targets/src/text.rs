//! Safety of text for display.

/// Asserts that a message is one line without characters that control a terminal.
#[track_caller]
pub fn assert_safe(message: &str) {
    let bad = message.chars().find(|&character| is_control(character));
    assert_eq!(bad, None, "in {message:?}");
}

/// Returns whether a character controls a terminal, or changes the direction or position of the
/// text around it: Unicode's `Cc`, `Bidi_Control` and the separators. Written as numbers, because
/// `printable` uses the standard library.
fn is_control(character: char) -> bool {
    matches!(
        u32::from(character),
        0..=0x1f
            | 0x7f..=0x9f
            | 0x61c
            | 0x200b..=0x200f
            | 0x2028..=0x202e
            | 0x2060..=0x2069
            | 0xfeff
            | 0xfff9..=0xfffb
            | 0xe0000..=0xe007f
    )
}
