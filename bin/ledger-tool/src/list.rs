//! `ledger-tool list`

use std::{
    io::{self, BufWriter, Write},
    ops::ControlFlow,
};

use serde::Serialize;
use unsnap_lookup::Reader;
use unsnap_pass::Handles;
use unsnap_tarstream::{Member, MemberKind, printable};

use crate::{
    cli::{ListArgs, ListFormat},
    exit::OutputFailed,
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
};

/// Bytes gathered before they are written to standard output. A guess.
const OUT_BYTES: usize = 64 << 10;

/// An entry in JSON.
#[derive(Serialize)]
struct Entry<'a> {
    path: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    bytes: u64,
    /// Offset of its header in the decoded stream.
    header_offset: u64,
    /// Offset of its content in the decoded stream.
    payload_offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
}

pub fn run(args: &ListArgs, printer: &Printer) -> anyhow::Result<()> {
    let mut options = settings::reading(&args.io)?;
    options.io.index = args.index.index_use();
    let (archive, _) = settings::archives(&args.archive, None, &args.fetch, &args.io)?;
    let (archives, handles) = (archive.into(), Handles::default());
    let reader = Reader { archives: &archives, options: &options, handles: &handles };
    let signals = Signals::catch()?;
    let Handles { progress, cancel } = handles.clone();
    let display = Display::start_doing("listing", printer, progress);
    let out = Display::beside(display.as_ref(), io::stdout().lock());
    let mut out = BufWriter::with_capacity(OUT_BYTES, out);
    let mut written = Ok(());
    let mut first = true;
    let format = args.format;
    let visit = |member: &Member<'_>| {
        written = write_member(&mut out, format, member, std::mem::take(&mut first));
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let listed = reader.list(|| signals.cancel(cancel).map(drop), visit);
    drop(display);
    written.map_err(OutputFailed::new)?;
    if format == ListFormat::Json && listed.is_ok() {
        out.write_all(if first { b"[]\n" } else { b"\n]\n" }).map_err(OutputFailed::new)?;
    }
    // Entries found before an error are printed before the error.
    out.flush().map_err(OutputFailed::new)?;
    listed?;
    Ok(())
}

fn write_member(
    out: &mut impl Write,
    format: ListFormat,
    member: &Member<'_>,
    first: bool,
) -> io::Result<()> {
    let (path, link) = (printable(member.path), printable(member.link));
    let link = (!link.is_empty()).then_some(link.as_str());
    let entry = Entry {
        path: &path,
        kind: kind(member.kind),
        bytes: member.size,
        header_offset: member.header_offset,
        payload_offset: member.payload_offset,
        link,
    };
    match format {
        ListFormat::Text => {
            let arrow = link.map_or_else(String::new, |link| format!(" -> {link}"));
            let letter = letter(member.kind);
            writeln!(out, "{letter} {:>14} {path}{arrow}", member.size)?;
        }
        ListFormat::Json => {
            out.write_all(if first { b"[\n  " } else { b",\n  " })?;
            serde_json::to_writer(&mut *out, &entry).map_err(io::Error::from)?;
        }
        ListFormat::JsonLines => {
            serde_json::to_writer(&mut *out, &entry).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

fn kind(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Regular => "file",
        MemberKind::Directory => "directory",
        MemberKind::HardLink => "hard_link",
        MemberKind::SymbolicLink => "symbolic_link",
        MemberKind::CharDevice => "char_device",
        MemberKind::BlockDevice => "block_device",
        MemberKind::Fifo => "fifo",
        MemberKind::Sparse => "sparse_file",
        MemberKind::Other(_) => "other",
    }
}

/// Returns the letter that `ls -l` shows.
fn letter(kind: MemberKind) -> char {
    match kind {
        MemberKind::Regular => '-',
        MemberKind::Directory => 'd',
        MemberKind::HardLink => 'h',
        MemberKind::SymbolicLink => 'l',
        MemberKind::CharDevice => 'c',
        MemberKind::BlockDevice => 'b',
        MemberKind::Fifo => 'p',
        MemberKind::Sparse => 's',
        MemberKind::Other(_) => '?',
    }
}
