//! The result, for people.

use std::fmt::Write;

use indicatif::{BinaryBytes, HumanCount};
use unsnap_cli::printer::Printer;

use super::{judge::action, result::BenchResult};

/// Columns of names, and of times with their spread.
const NAME_COLUMNS: usize = 22;
const TIME_COLUMNS: usize = 22;

/// Tables of times, and what they mean.
pub fn text(result: &BenchResult, printer: &Printer) -> String {
    let mut text = format!("{}\n", headline(result));
    let bold = |words: &str| printer.paint_data(words, "1");
    let heading = |name: &str, last: &str| {
        let seconds = format!("{:TIME_COLUMNS$}", "seconds");
        format!("{}{seconds}{last}", bold(&format!("{name:NAME_COLUMNS$}")))
    };
    let _ = writeln!(text, "{}", heading("alone", "a second    a whole run takes"));
    for alone in &result.alone {
        let _ = writeln!(
            text,
            "  {:<width$}{:TIME_COLUMNS$}{:<12}{} ×",
            action(alone.stage),
            alone.seconds.text(),
            BinaryBytes(alone.rate()).to_string(),
            alone.run_ratio.text(),
            width = NAME_COLUMNS - 2,
        );
    }
    let last = "× default           limited by";
    let _ = writeln!(text, "{}", heading("tried", last));
    for variant in &result.variants {
        let _ = write!(text, "  {:<width$}", variant.name, width = NAME_COLUMNS - 2);
        let _ = match &variant.skipped {
            Some(reason) => writeln!(text, "not here: {reason}"),
            None => writeln!(
                text,
                "{:TIME_COLUMNS$}{:<20}{}",
                variant.seconds.text(),
                variant.ratio.text(),
                variant.limited_by.join(", ")
            ),
        };
    }
    let _ = writeln!(text, "{} {}", bold("limit:"), result.limit);
    let _ = writeln!(text, "{} {}", bold("flags:"), result.advice);
    for note in &result.notes {
        let _ = writeln!(text, "{} {note}", printer.paint_data("note:", "33;1"));
    }
    text
}

/// What was unpacked, and where to.
pub fn headline(result: &BenchResult) -> String {
    let archive = &result.archive;
    let which = match (archive.generated, archive.whole) {
        (true, _) => "a generated archive".to_owned(),
        (false, true) => archive.path.clone(),
        (false, false) => format!("the beginning of {}", archive.path),
    };
    format!(
        "{which}: {} in {} files from {}; to {} ({}); {}",
        BinaryBytes(archive.bytes_written),
        HumanCount(archive.files),
        BinaryBytes(archive.bytes_read),
        result.output,
        result.file_system,
        match result.rounds {
            1 => "one round".to_owned(),
            rounds => format!("medians [least–most] of {rounds} rounds"),
        },
    )
}
