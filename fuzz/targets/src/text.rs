//! What is shown to people.

/// A message is one line that a terminal shows and does not obey.
#[track_caller]
pub fn assert_safe(message: &str) {
    let bad = message.chars().find(|&character| obeyed(character));
    assert_eq!(bad, None, "in {message:?}");
}

/// Control characters, and those that change the direction or the place of the text around them.
/// Unicode's `Cc`, `Bidi_Control` and the separators; written as numbers, since `printable` asks the
/// standard library.
fn obeyed(character: char) -> bool {
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
