//! The only place that writes to the terminal.

use std::io::{self, Write};

/// Something that is going on, for whoever is watching.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Part of the result.
pub fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
