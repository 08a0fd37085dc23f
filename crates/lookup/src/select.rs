//! Selection of entries by patterns and slots.

use std::ops::RangeInclusive;

use glob::{MatchOptions, Pattern};
use unsnap_failure::Remedy;
use unsnap_index::EntryName;
use unsnap_pass::PassError;
use unsnap_tarstream::printable;

/// Rules for patterns: `*` and `?` do not match a slash, `**` does.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// A selection of entries: those whose path matches a pattern, and the storages of slots.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    entries: Vec<Pattern>,
    /// Whether every pattern matches one path only, and there are no slots.
    literal: bool,
    slots: Vec<RangeInclusive<u64>>,
}

impl Selection {
    /// Creates a selection. Patterns are those of a shell: `*`, `?`, `[…]`, and `**` for any number
    /// of directories.
    pub fn new(entries: &[String], slots: Vec<RangeInclusive<u64>>) -> Result<Self, PassError> {
        let pattern = |text: &String| {
            Pattern::new(text).map_err(|error| {
                let text = printable(text.as_bytes());
                let remedy = Remedy::advice("patterns are made of *, ?, [abc] and **");
                PassError::request_with(format!("\"{text}\" is not a pattern: {error}"), remedy)
            })
        };
        let literal =
            slots.is_empty() && !entries.iter().any(|text| text.contains(['*', '?', '[']));
        let entries = entries.iter().map(pattern).collect::<Result<_, _>>()?;
        Ok(Self { entries, literal, slots })
    }

    /// Returns the selected slots.
    pub fn slots(&self) -> &[RangeInclusive<u64>] {
        &self.slots
    }

    /// Returns whether the entry of this path is selected.
    pub(crate) fn includes(&self, path: &[u8]) -> bool {
        let name = path.strip_prefix(b"./").unwrap_or(path);
        let by_slot = || EntryName::of(name).slot().is_some_and(|slot| self.includes_slot(slot));
        let by_name = || {
            let name = str::from_utf8(name).ok();
            name.is_some_and(|name| {
                self.entries.iter().any(|pattern| pattern.matches_with(name, OPTIONS))
            })
        };
        by_name() || (!self.slots.is_empty() && by_slot())
    }

    /// Returns whether the storages of a slot are selected.
    pub(crate) fn includes_slot(&self, slot: u64) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    /// Returns the patterns and slots as text, for an error.
    pub(crate) fn words(&self) -> String {
        let patterns = self
            .entries
            .iter()
            .map(|entry| format!("\"{}\"", printable(entry.as_str().as_bytes())));
        let slots = self.slots.iter().map(|slots| match (*slots.start(), *slots.end()) {
            (first, last) if first == last => format!("slot {first}"),
            (first, u64::MAX) => format!("slots from {first} on"),
            (first, last) => format!("slots {first} to {last}"),
        });
        patterns.chain(slots).collect::<Vec<_>>().join(" or ")
    }

    /// Returns the largest possible number of selected entries; `None` if it depends on the
    /// archive.
    pub(crate) fn entries_max(&self) -> Option<u64> {
        self.literal.then_some(self.entries.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use unsnap_failure::{Failure, Family};

    use super::*;

    fn takes(entries: &[&str], slots: Vec<RangeInclusive<u64>>, path: &str) -> bool {
        let entries: Vec<String> = entries.iter().map(|&text| text.to_owned()).collect();
        Selection::new(&entries, slots).unwrap().includes(path.as_bytes())
    }

    #[test]
    fn an_error_tells_what_was_selected() {
        let selection = Selection::new(&["version".to_owned()], vec![3..=3, 5..=6, 9..=u64::MAX]);
        let words = selection.unwrap().words();
        assert_eq!(words, "\"version\" or slot 3 or slots 5 to 6 or slots from 9 on");
    }

    #[test]
    fn entries_are_taken_by_name_or_slot() {
        assert!(takes(&["version"], vec![], "version"));
        assert!(takes(&["version"], vec![], "./version"));
        assert!(!takes(&["version"], vec![], "snapshots/version"));
        assert!(takes(&["accounts/1*.?"], vec![], "accounts/17.4"));
        assert!(!takes(&["*"], vec![], "accounts/17.4"), "a star stops at a slash");
        assert!(takes(&["**"], vec![], "accounts/17.4"));
        assert!(takes(&[], vec![3..=5, 17..=17], "accounts/17.4"));
        assert!(!takes(&[], vec![3..=5], "accounts/17.4"));
        assert!(takes(&["version"], vec![3..=5], "accounts/4.9"), "one or the other");
        assert!(!takes(&[], vec![], "version"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["[", "a**", "***"] {
            let error = Selection::new(&[text.to_owned()], Vec::new()).unwrap_err();
            assert_eq!(error.family(), Family::Request, "{text}");
        }
    }
}
