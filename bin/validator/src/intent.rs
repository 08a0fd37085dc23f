//! What a command line asks for, including one with mistakes.
//!
//! A command line that may ask for `--prepare-only` never starts anything: a second validator with
//! the same identity is worse than none. Any other mistake must not keep a validator from starting,
//! if it is clear which words start it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::CommandFactory;
use unsnap_cli::validator::names_validator;

use crate::cli::Cli;

/// The request of a command line.
pub enum Intent {
    /// The command line is valid.
    Run(Box<Cli>),
    /// Nothing is executed. The error says why, or is the help that was asked for.
    Stop(clap::Error),
    /// An option of this program is wrong, but the validator's command line is clear.
    StartPlainly {
        /// The mistake.
        error: clap::Error,
        /// Program and arguments of the validator; not empty.
        command: Vec<OsString>,
    },
}

impl Intent {
    /// Judges the words of a command line; the first is the name of this program.
    pub fn of(words: &[OsString]) -> Self {
        let cli = match Cli::parse_words(words) {
            Ok(cli) => cli,
            Err(error) => return Self::despite(error, words),
        };
        if cli.prepare_only {
            return Self::Run(Box::new(cli));
        }
        let behind_own = words.len().saturating_sub(cli.command.len());
        let own = words.get(1..behind_own).unwrap_or_default();
        let begins_with_flag = cli.command.first().is_some_and(|program| is_flag(program));
        let exact = cli.command.iter().find(|word| *word == PREPARE_ONLY);
        let doubtful = own.iter().find(|word| may_mean_prepare_only(word)).or(exact);
        if let Some(word) = doubtful {
            return Self::Stop(refusal(&format!(
                "'{}' may be meant as {PREPARE_ONLY}, which must stand by itself in front of the \
                 validator's command line: nothing is executed",
                word.display()
            )));
        }
        if begins_with_flag {
            return Self::Stop(refusal("the validator's command line begins with a flag"));
        }
        Self::Run(Box::new(cli))
    }

    fn despite(error: clap::Error, words: &[OsString]) -> Self {
        let end = words.iter().position(|word| word == "--");
        let Some(end) = end.filter(|_| error.use_stderr()) else { return Self::Stop(error) };
        let (own, command) = (words.get(1..end).unwrap_or_default(), &words[end + 1..]);
        if own.iter().any(|word| may_mean_prepare_only(word)) || !is_clear(own, command) {
            return Self::Stop(error);
        }
        Self::StartPlainly { error, command: command.to_vec() }
    }
}

const PREPARE_ONLY: &str = "--prepare-only";

fn refusal(reason: &str) -> clap::Error {
    Cli::command().error(clap::error::ErrorKind::ArgumentConflict, reason)
}

/// Returns whether `--` separates words of this program, which clap refused, from a validator's
/// command line.
fn is_clear(own: &[OsString], command: &[OsString]) -> bool {
    let Some(program) = command.first().filter(|word| !word.is_empty() && !is_flag(word)) else {
        return false;
    };
    let named = |word: &OsString| names_validator(Path::new(word));
    if command.contains(&PREPARE_ONLY.into()) || own.iter().any(named) {
        return false;
    }
    // A word that is neither a flag nor the value of one begins a command line: this `--` may be
    // one of its arguments.
    let stray = |index: usize| {
        let is_value = index > 0 && is_flag(&own[index - 1]);
        !is_flag(&own[index]) && !is_value
    };
    named(program) || !(0..own.len()).any(stray)
}

fn is_flag(word: &OsStr) -> bool {
    word.to_string_lossy().starts_with(is_dash)
}

/// Returns whether a character is a dash. Text that was edited elsewhere has other ones than ASCII.
fn is_dash(character: char) -> bool {
    matches!(
        character,
        '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}'
    )
}

/// Returns whether a word, or a part of one that was quoted as a whole or is the value of another
/// flag, may be a misspelled `--prepare-only`. A false alarm costs a start; a miss costs a second
/// validator.
fn may_mean_prepare_only(word: &OsStr) -> bool {
    let text = word.to_string_lossy().to_lowercase();
    let parts = text.split(|c: char| c.is_whitespace() || ",;=:'\"".contains(c));
    parts.filter(|part| part.starts_with(is_dash)).any(is_like_prepare_only)
}

fn is_like_prepare_only(flag: &str) -> bool {
    const TARGET: &str = "prepareonly";
    let name = flag.trim_start_matches(is_dash);
    let is_long = flag.chars().take_while(|c| is_dash(*c)).count() > 1;
    if is_long && name != "prepare-only" && is_known(name) {
        return false;
    }
    // Behind a single dash, `-l` takes the rest of the word as its value.
    let name = if is_long { name } else { name.trim_start_matches(['q', 'v']) };
    if !is_long && name.starts_with('l') {
        return false;
    }
    let name: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    if name.is_empty() {
        return false;
    }
    TARGET.starts_with(&name)
        || (name.len() > 2 && TARGET.ends_with(&name))
        || name.contains("prep")
        || name == "dryrun"
        || strsim::osa_distance(&name, TARGET) <= EDITS_MAX
        || letters_apart(&name, TARGET) <= LETTERS_MAX
}

/// Most edits between `--prepare-only` and a misspelling of it: more than a third of its letters. A
/// guess.
const EDITS_MAX: usize = 4;

/// Most letters by which words that are put together in another order may differ. A guess.
const LETTERS_MAX: u32 = 2;

/// Returns the number of letters that only one of two words has.
fn letters_apart(one: &str, other: &str) -> u32 {
    let mut counts = BTreeMap::<char, i32>::new();
    one.chars().for_each(|c| *counts.entry(c).or_default() += 1);
    other.chars().for_each(|c| *counts.entry(c).or_default() -= 1);
    counts.values().map(|count| count.unsigned_abs()).sum()
}

fn is_known(name: &str) -> bool {
    Cli::command().get_arguments().any(|argument| argument.get_long() == Some(name))
}

#[cfg(test)]
mod tests;
