//! Tables of verdicts in Markdown files, with computed cells that a test compares and a last column
//! written by hand.
//!
//! The file holds one table, and any text before it is preserved. Each cell is text on one line,
//! with `\|` for a bar.

use std::fs;
use std::io;
use std::path::Path;

/// The variable that makes tests write tables instead of comparing them.
pub const BLESS: &str = "UNSNAP_BLESS";

/// A table, as in a file or as computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Text before the table.
    pub introduction: String,
    /// Titles of the columns.
    pub titles: Vec<String>,
    /// One row per subject, which is its first cell. All rows are as long as `titles`.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads the table of a Markdown file.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let start = text.find("\n|").map_or(text.len(), |newline| newline + 1);
        let mut rows = text[start..].lines().take_while(|line| line.starts_with('|')).map(cells);
        let titles = rows.next().unwrap_or_default();
        // The second line only separates the titles.
        let rows: Vec<Vec<String>> = rows.skip(1).collect();
        if rows.iter().any(|row| row.len() != titles.len()) {
            let reason = format!("{}: rows differ in length", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(Self { introduction: text[..start].to_owned(), titles, rows })
    }

    /// Rewrites the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = self.introduction.clone();
        let separator = vec!["---".to_owned(); self.titles.len()];
        for row in [&self.titles, &separator].into_iter().chain(&self.rows) {
            for cell in row {
                text.push_str("| ");
                text.push_str(&cell.replace('|', r"\|"));
                text.push_str(if cell.is_empty() { "" } else { " " });
            }
            text.push_str("|\n");
        }
        fs::write(path, text)
    }

    /// Returns the cell of a subject in a column, or `None` if either does not exist.
    pub fn cell(&self, subject: &str, column: usize) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.first().is_some_and(|first| first == subject))?;
        row.get(column).map(String::as_str)
    }

    /// Returns the differences from another table in the given columns, one per line.
    pub fn differences(&self, other: &Self, columns: &[usize]) -> Vec<String> {
        let mut differences = Vec::new();
        for &column in columns {
            let titles = (self.titles.get(column), other.titles.get(column));
            if titles.0 != titles.1 {
                differences.push(format!("column {column}: {titles:?}"));
            }
        }
        let subjects = self.rows.iter().chain(&other.rows).filter_map(|row| row.first());
        let subjects: std::collections::BTreeSet<&String> = subjects.collect();
        for subject in subjects {
            for &column in columns {
                let cells = (self.cell(subject, column), other.cell(subject, column));
                if cells.0 != cells.1 {
                    let title = self.titles.get(column).map_or("", String::as_str);
                    let [mine, theirs] =
                        [cells.0, cells.1].map(|cell| cell.unwrap_or("(no such row)"));
                    differences.push(format!("{subject}, {title}:\n  - {mine}\n  + {theirs}"));
                }
            }
        }
        differences
    }
}

/// Returns whether tables are to be written.
pub fn is_blessing() -> bool {
    std::env::var_os(BLESS).is_some_and(|value| value == "1")
}

/// Converts arbitrary text to a cell: one line, without terminal control characters.
pub fn plain(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let escaped = line.chars().flat_map(|character| match character {
        '\\' | '"' | '\'' | ' '..='~' => vec![character],
        _ => character.escape_debug().collect(),
    });
    escaped.collect::<String>().trim().to_owned()
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().strip_prefix('|').unwrap_or(line);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    // A bar that is part of a cell has a backslash before it.
    let mut cells = vec![String::new()];
    let mut characters = inner.chars().peekable();
    while let Some(character) = characters.next() {
        let last = cells.last_mut().expect("there is at least one");
        match character {
            '\\' if characters.peek() == Some(&'|') => last.extend(characters.next()),
            '|' => cells.push(String::new()),
            _ => last.push(character),
        }
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let rows = [["a|b", r"\x83 | x", ""], ["c", "", "why"]];
        Table {
            introduction: "# Title\n\nText.\n\n".to_owned(),
            titles: ["subject", "verdict", "note"].map(str::to_owned).to_vec(),
            rows: rows
                .iter()
                .map(|row| row.iter().map(|&cell| cell.to_owned()).collect())
                .collect(),
        }
    }

    #[test]
    fn tables_survive_a_round_trip() {
        let file = tempfile::NamedTempFile::new().unwrap();
        table().write(file.path()).unwrap();
        assert_eq!(Table::read(file.path()).unwrap(), table());
    }

    #[test]
    fn differences_are_reported_by_row_and_column() {
        let mut other = table();
        assert!(table().differences(&other, &[0, 1, 2]).is_empty());
        other.rows[0][1] = "else".to_owned();
        other.rows.remove(1);
        let differences = table().differences(&other, &[1]);
        assert_eq!(differences.len(), 2);
        assert!(differences[0].starts_with("a|b, verdict:\n"), "{differences:?}");
        assert!(table().differences(&other, &[2])[0].starts_with("c, note:"));
    }

    #[test]
    fn cells_are_plain() {
        assert_eq!(plain("one\ntwo"), "one");
        assert_eq!(plain("\x1b[2J ☺"), r"\u{1b}[2J ☺");
    }
}
