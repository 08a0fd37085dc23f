//! The result as text.

use std::fmt::Write;

use unsnap_cli::{
    printer::Printer,
    units::{count, size},
};

use super::{judge::action, result::BenchResult};

/// Widths of the columns with names, and with times and their ranges.
const NAME_COLUMNS: usize = 22;
const TIME_COLUMNS: usize = 22;

/// Returns tables of times, and conclusions.
pub fn text(result: &BenchResult, printer: &Printer) -> String {
    let mut text = format!("{}\n", headline(result));
    let bold = |words: &str| printer.paint_data(words, "1");
    let heading = |name: &str, last: &str| {
        let seconds = format!("{:TIME_COLUMNS$}", "seconds");
        format!("{}{seconds}{last}", bold(&format!("{name:NAME_COLUMNS$}")))
    };
    let _ = writeln!(text, "{}", heading("stage alone", "rate          whole run"));
    for alone in &result.alone {
        let _ = writeln!(
            text,
            "  {:<width$}{:TIME_COLUMNS$}{:<14}{} × as long",
            action(alone.stage),
            alone.seconds.text(),
            format!("{}/s", size(alone.rate())),
            alone.run_ratio.text(),
            width = NAME_COLUMNS - 2,
        );
    }
    let last = "× default           limited by";
    let _ = writeln!(text, "{}", heading("variant", last));
    for variant in &result.variants {
        let _ = write!(text, "  {:<width$}", variant.name, width = NAME_COLUMNS - 2);
        let _ = match &variant.skipped {
            Some(reason) => writeln!(text, "not supported: {reason}"),
            None => writeln!(
                text,
                "{:TIME_COLUMNS$}{:<20}{}",
                variant.seconds.text(),
                variant.ratio.text(),
                variant.limited_by.join(", ")
            ),
        };
    }
    let _ = writeln!(text, "{} {}", bold("bottleneck:"), result.limit);
    let _ = writeln!(text, "{} {}", bold("flags:"), result.advice);
    for note in &result.notes {
        let _ = writeln!(text, "{} {note}", printer.paint_data("note:", "33;1"));
    }
    text
}

/// Returns a line that names the archive and the destination.
pub fn headline(result: &BenchResult) -> String {
    let archive = &result.archive;
    let which = match (archive.generated, archive.whole) {
        (true, _) => "a generated archive".to_owned(),
        (false, true) => archive.path.clone(),
        (false, false) => format!("the beginning of {}", archive.path),
    };
    format!(
        "{which}: {} in {} from {}; to {} ({}); {}",
        size(archive.bytes_written),
        count(archive.files, "file"),
        size(archive.bytes_read),
        result.output,
        result.file_system,
        match result.rounds {
            1 => "1 round".to_owned(),
            rounds => format!("medians [minimum–maximum] of {rounds} rounds"),
        },
    )
}
