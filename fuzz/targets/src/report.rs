//! Target for the output of names.

use serde_json::{Value, json};
use unsnap_pass::{LimitsReport, SandboxReport};
use unsnap_tarstream::printable;
use unsnap_unpack::{Report, ThreadReport};

use crate::{INPUT_BYTES_MAX, text::assert_safe};

/// Takes a name of arbitrary bytes. Its escaped form is safe to display and unambiguous. In JSON it
/// survives a round trip, and neither a listing nor a report contains a control character.
pub fn report(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    let shown = printable(data);
    assert_safe(&shown);
    assert_eq!(unescape(&shown).as_deref(), Some(data), "{shown:?}");

    // An entry of `ledger-tool list`.
    let entry = serde_json::to_string(&json!({ "path": shown })).expect("plain data");
    assert_safe(&entry);
    let back: Value = serde_json::from_str(&entry).expect("just written");
    assert_eq!(back["path"], shown);

    // A report contains the archive's name as the caller gave it.
    let given = String::from_utf8_lossy(data).into_owned();
    let json = serde_json::to_string(&report_on(&given, &shown)).expect("plain data");
    assert!(!json.bytes().any(|byte| byte < b' '), "{json:?}");
    let back: Value = serde_json::from_str(&json).expect("just written");
    assert_eq!(back["archive"], given);
    assert_eq!(back["fallbacks"], json!([shown]));
    assert_eq!(back["threads"][0]["name"], given);
}

/// Decodes the output of `printable`, by its documentation.
fn unescape(shown: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('\\') {
            bytes.push(b'\\');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('x') {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            let (digits, after) = rest.strip_prefix("u{")?.split_once('}')?;
            let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = after;
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

fn report_on(archive: &str, fallback: &str) -> Report {
    let thread = ThreadReport {
        name: archive.to_owned(),
        stage: "walk",
        total_ms: 1,
        busy_ms: 1,
        waiting_for_input_ms: 0,
        waiting_for_output_ms: 0,
        waiting_for_io_ms: 0,
    };
    Report {
        archive: archive.to_owned(),
        kind: "unknown",
        slot: Some(u64::MAX),
        base_slot: None,
        hash: None,
        incremental: None,
        bank: None,
        accounts: None,
        reused: None,
        accounts_paths: Vec::new(),
        compression: "zstd",
        dry_run: true,
        files: 0,
        directories: 0,
        bytes_read: u64::MAX,
        bytes_decoded: 0,
        bytes_written: 0,
        frames: 0,
        skippable_frames: 0,
        elapsed_ms: 1,
        sync_ms: 0,
        decode_engine: "streaming",
        decode_threads: 1,
        decoder: "libzstd",
        own_frames: 0,
        io_engine: "threads".to_owned(),
        direct_read: false,
        bytes_from_cache: 0,
        direct_write: false,
        huge_pages: "none",
        registered_buffers: false,
        memory_bytes: 0,
        fallbacks: vec![fallback.to_owned()],
        digest: None,
        resumed: None,
        tee: Vec::new(),
        sandbox: SandboxReport { missing: vec![fallback.to_owned()], ..SandboxReport::default() },
        preflight: None,
        limits: LimitsReport::default(),
        creators: Vec::new(),
        paused_ms: 0,
        held_back_ms: 0,
        limited_by: "walk",
        threads: vec![thread],
        peak_rss_bytes: 0,
    }
}
