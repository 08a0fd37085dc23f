//! Examples at the end of a command's `--help`:
//!
//! ```text
//! Examples:
//!   Purpose of the example:
//!     line to type
//! ```
//!
//! All programs use this form, so that manual pages have a section of examples, and a test runs every
//! example.

/// The line above the examples.
const HEADING: &str = "Examples:";

/// Indentation of an example's purpose.
const WHAT_COLUMNS: usize = 2;

/// Indentation of an example's lines.
const LINE_COLUMNS: usize = 4;

/// An example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// Its purpose.
    pub what: String,
    /// Lines to type in a shell.
    pub lines: Vec<String>,
}

/// Returns the examples at the end of a help text; none if the heading is missing.
pub fn examples(help: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in help.lines().skip_while(|line| *line != HEADING).skip(1) {
        let text = line.trim_start();
        match line.len() - text.len() {
            _ if text.is_empty() => {}
            WHAT_COLUMNS => {
                examples.push(Example { what: text.to_owned(), ..Example::default() });
            }
            _ => {
                if let Some(example) = examples.last_mut() {
                    // A line with more indentation continues the line before it.
                    let line = line.get(LINE_COLUMNS..).unwrap_or(text);
                    example.lines.push(line.to_owned());
                }
            }
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_what_stands_below_their_heading() {
        let help = "Usage: x\n  not this:\n    one\n\nExamples:\n  This:\n    a b \\\n      c\n\n  \
                    And that:\n    d\n    e";
        let example = |what: &str, lines: &[&str]| Example {
            what: what.to_owned(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let expected = [example("This:", &["a b \\", "  c"]), example("And that:", &["d", "e"])];
        assert_eq!(examples(help), expected);
        assert_eq!(examples("Usage: x\n  y:\n    z"), []);
    }
}
