//! The checks as text.

use std::fmt::Write;

use unsnap_cli::{printer::Printer, units::count};

use super::check::{Check, Verdict};

/// Widths of the columns before the finding: the verdict and the check's name.
const VERDICT_COLUMNS: usize = 9;
const ID_COLUMNS: usize = 24;

/// Returns one or more lines for each check, with a heading for the machine and for each path, and a
/// summary.
pub fn text(checks: &[Check], printer: &Printer) -> String {
    let mut text = String::new();
    let mut about: Option<Option<&str>> = None;
    for check in checks {
        if about != Some(check.path.as_deref()) {
            about = Some(check.path.as_deref());
            let heading = match &check.path {
                Some(path) => path.as_str(),
                None if text.is_empty() => "machine and process",
                None => "all paths",
            };
            let _ = writeln!(text, "{}", printer.paint_data(heading, "1"));
        }
        let verdict = format!("{:VERDICT_COLUMNS$}", check.verdict.name());
        let verdict = printer.paint_data(&verdict, color(check.verdict));
        let _ = writeln!(text, "  {verdict}{:ID_COLUMNS$}{}", check.id, check.found);
        let indent = 2 + VERDICT_COLUMNS + ID_COLUMNS;
        if let Some(consequence) = &check.consequence {
            let _ = writeln!(text, "{:indent$}{consequence}", "");
        }
        if let Some(remedy) = &check.remedy {
            let _ =
                writeln!(text, "{:indent$}{} {remedy}", "", printer.paint_data("remedy:", "36"));
        }
    }
    text + &conclusion(checks)
}

fn conclusion(checks: &[Check]) -> String {
    let with = |verdict| checks.iter().filter(|check| check.verdict == verdict).count() as u64;
    let (problems, warnings) = (with(Verdict::Problem), with(Verdict::Warning));
    let notes = with(Verdict::Note);

    let what = match (problems, warnings) {
        (0, 0) => "nothing makes unsnap slow or unsafe here",
        (0, _) => "unsnap is slower or less safe here than it could be",
        _ => "unsnap would fail or be unsafe here",
    };
    let counts = [count(problems, "problem"), count(warnings, "warning"), count(notes, "note")];
    format!("{what}: {}\n", counts.join(", "))
}

/// Returns the colour of a verdict, as `ls` and compilers use them: red, yellow, blue, green.
fn color(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Problem => "31;1",
        Verdict::Warning => "33;1",
        Verdict::Note => "34",
        Verdict::Ok => "32",
    }
}

#[cfg(test)]
mod tests {
    use unsnap_cli::args::{Color, OutputArgs};

    use super::*;

    fn printer(color: Color) -> Printer {
        Printer::new(&OutputArgs { quiet: 0, verbose: 0, no_progress: true, color })
    }

    #[test]
    fn checks_are_aligned_and_counted() {
        let bad = Check::ok("disk", "sda").but(Verdict::Warning, "slow").remedy("another");
        let checks = [Check::ok("kernel", "Linux 6.18"), bad.of("/mnt"), Check::ok("x", "y")];
        let expected = "\
machine and process
  ok       kernel                  Linux 6.18
/mnt
  warning  disk                    sda
                                   slow
                                   remedy: another
all paths
  ok       x                       y
unsnap is slower or less safe here than it could be: 0 problems, 1 warning, 0 notes
";
        assert_eq!(text(&checks, &printer(Color::Never)), expected);
        let colored = text(&checks, &printer(Color::Always));
        assert!(colored.contains("\x1b[33;1mwarning  \x1b[0m"), "{colored:?}");
    }
}
