//! Markdown: tables, and putting text between marker comments.

use anyhow::{Context, Result, ensure};

/// Where generated text begins in a document.
pub const BEGIN: &str = "<!-- peers: begin -->";

/// Where it ends.
pub const END: &str = "<!-- peers: end -->";

/// A table. Columns beyond the first are aligned to the right if `numbers`.
pub fn table(header: &[&str], rows: &[Vec<String>], numbers: bool) -> String {
    let mut lines = vec![line(header.iter().map(|cell| (*cell).to_owned()))];
    let rule = |index| if numbers && index > 0 { "---:" } else { "---" }.to_owned();
    lines.push(format!("|{}|", (0..header.len()).map(rule).collect::<Vec<_>>().join("|")));
    lines.extend(rows.iter().map(|row| line(row.iter().map(|cell| cell.replace('|', "\\|")))));
    lines.join("\n") + "\n"
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// The document with everything between the markers replaced.
pub fn replace_between_markers(document: &str, text: &str) -> Result<String> {
    let missing = || format!("the lines {BEGIN} and {END} must stand where the tables go");
    let (before, rest) = document.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    ensure!(!after.contains(BEGIN) && !after.contains(END), "the markers stand there twice");
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_markdown() {
        let rows = [vec!["a | b".to_owned(), "1".to_owned()]];
        assert_eq!(
            table(&["tool", "s"], &rows, true),
            "| tool | s |\n|---|---:|\n| a \\| b | 1 |\n"
        );
        assert_eq!(table(&["a"], &[], false), "| a |\n|---|\n");
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let replaced = replace_between_markers(&document, "\nnew\n").unwrap();
        assert_eq!(replaced, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(replace_between_markers(&replaced, "new").unwrap(), replaced);
    }

    #[test]
    fn markers_must_be_there_once() {
        for document in ["none", BEGIN, &format!("{END}{BEGIN}"), &format!("{BEGIN}{END}{BEGIN}")] {
            assert!(replace_between_markers(document, "new").is_err(), "{document}");
        }
    }
}
