//! Escaping of names from an archive, so that they are safe to display.

use std::fmt::Write as _;

/// Returns a path as text for messages, with every sequence escaped that a terminal would
/// interpret.
///
/// Graphic characters of valid UTF-8 and the plain space stay as they are. A backslash is doubled,
/// so the result is unambiguous. Every other ASCII character and every byte that is not UTF-8
/// becomes `\xNN`; control, bidi, zero-width and combining characters become `\u{…}`.
///
/// ```
/// assert_eq!(unsnap_tarstream::printable(b"\x1b[2Jname"), r"\x1b[2Jname");
/// ```
pub fn printable(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str(r"\\"),
                ' '..='~' => text.push(character),
                '\0'..='\x7f' => push_hex(&mut text, character as u32),
                // Escapes exactly the characters that Unicode calls unprintable, and combining
                // marks.
                _ => text.extend(character.escape_debug()),
            }
        }
        for &byte in chunk.invalid() {
            push_hex(&mut text, u32::from(byte));
        }
    }
    text
}

fn push_hex(text: &mut String, byte: u32) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphic_text_stays() {
        assert_eq!(printable(b"accounts/1234.567"), "accounts/1234.567");
        assert_eq!(printable("naïve file ☺/日本".as_bytes()), "naïve file ☺/日本");
        assert_eq!(printable(b"'\"{}"), "'\"{}");
        assert_eq!(printable(b""), "");
    }

    #[test]
    fn everything_a_terminal_obeys_is_escaped() {
        assert_eq!(printable(b"\x1b[31m"), r"\x1b[31m");
        assert_eq!(printable(b"a\nb\rc\td\0e\x07f\x7f"), r"a\x0ab\x0dc\x09d\x00e\x07f\x7f");
        // C1 controls, as UTF-8 and as bare bytes.
        assert_eq!(printable("\u{9b}31m".as_bytes()), r"\u{9b}31m");
        assert_eq!(printable(b"\x9b31m"), r"\x9b31m");
        assert_eq!(printable(b"\\x1b"), r"\\x1b");
        assert_eq!(printable(b"ok\xff\xfeok\xe2\x98"), r"ok\xff\xfeok\xe2\x98");
    }

    #[test]
    fn bidi_and_invisible_characters_are_escaped() {
        let bidi = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
                    \u{2066}\u{2067}\u{2068}\u{2069}";
        let invisible = "\u{200b}\u{2028}\u{2029}\u{feff}\u{ad}\u{a0}";
        for character in bidi.chars().chain(invisible.chars()) {
            let expected = format!("\\u{{{:x}}}", character as u32);
            assert_eq!(printable(character.to_string().as_bytes()), expected);
        }
    }

    #[test]
    fn no_input_of_two_bytes_yields_a_control_character() {
        for word in 0..=u16::MAX {
            let text = printable(&word.to_be_bytes());
            assert!(!text.chars().any(char::is_control), "{word:#06x} gave {text:?}");
        }
    }
}
