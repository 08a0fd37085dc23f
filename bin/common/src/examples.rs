//! Examples, as they stand at the end of a command's `--help`:
//!
//! ```text
//! Examples:
//!   What it is good for:
//!     what to type
//! ```
//!
//! One form for all programs, so that manual pages show them in a section of their own, and a test runs
//! every one.

/// The line that examples begin after.
const HEADING: &str = "Examples:";

/// Columns before what an example is good for.
const WHAT_COLUMNS: usize = 2;

/// Columns before what is to be typed.
const LINE_COLUMNS: usize = 4;

/// Something to type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// What it is good for.
    pub what: String,
    /// What to type: lines for a shell.
    pub lines: Vec<String>,
}

/// The examples at the end of a help text; none if there is no such heading.
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
                    // What is indented further goes on with the line before.
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
