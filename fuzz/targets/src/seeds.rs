//! The seeds: small inputs that are valid, or nearly.

mod tables;

use std::{fs, io::Write as _, path::PathBuf};

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use unsnap_layout::append_vec::RecordHeader;
use unsnap_state::format::{Format, Storage};
use unsnap_testkit::{
    bank::{self, BankSpec},
    compress::{
        lz4_frame, lz4_frames, skippable_frame, skippable_frame_numbered, zstd_firedancer,
        zstd_frames, zstd_frames_unsized, zstd_mixed, zstd_one_frame, zstd_raw_blocks,
        zstd_rle_blocks,
    },
    content::{Content, fill_segment},
    tar::{Dialect, Header, TarBuilder, field, pax_record},
};

type Seeds = Vec<(String, Vec<u8>)>;

/// Returns the directory of a target's checked-in seeds.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    root().join("fuzz/seeds").join(target)
}

/// Returns the seeds of a target, by file name.
#[must_use]
pub fn of(target: &str) -> Seeds {
    match target {
        "archive_name" => numbered(NAMES.iter().map(|name| name.as_bytes().to_vec())),
        "bank" => banks(),
        "control_request" => numbered(REQUESTS.iter().map(|line| line.as_bytes().to_vec())),
        "decode_lz4" => lz4(),
        "decode_zstd" => named(zstd()).chain(genuine_zstd()).collect(),
        "fastboot" => fastboot(),
        "layout_any" => numbered(ANY.iter().map(|list| list.as_bytes().to_vec())),
        "layout_snapshot" => numbered(SNAPSHOT.iter().map(|list| list.as_bytes().to_vec())),
        "report" => numbered(TEXTS.iter().map(|text| text.to_vec())),
        "seek_table" => tables::seek_tables(),
        "side_car" => tables::side_cars(),
        "storage" => storages(),
        "tar_header" => headers(),
        "tar_pax" => numbered(pax().into_iter()),
        "tar_differential" | "tar_walk" => tars(),
        "decode_own" | "zstd_own" | "zstd_scan" => named(zstd()).collect(),
        other => panic!("no seeds for {other}"),
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn numbered(seeds: impl Iterator<Item = Vec<u8>>) -> Seeds {
    seeds.enumerate().map(|(index, bytes)| (format!("{index:02}"), bytes)).collect()
}

fn named(seeds: Vec<(&'static str, Vec<u8>)>) -> impl Iterator<Item = (String, Vec<u8>)> {
    seeds.into_iter().map(|(name, bytes)| (name.to_owned(), bytes))
}

/// Returns bytes that resemble account files.
fn content(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill_segment(Content::Huffman, 7, 0, 0, &mut bytes);
    bytes
}

/// Names in Agave's form, and similar ones.
const NAMES: [&str; 8] = [
    "snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst",
    "incremental-snapshot-39-47-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.lz4",
    "snapshot-18446744073709551615-11111111111111111111111111111111.tar.lz4",
    "incremental-snapshot-47-39-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.zst",
    "snapshot-039-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst",
    "tmp-snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst",
    "qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU",
    "snapshot-1-\u{1b}[2J.tar.zst",
];

/// Lines of the control socket, and some invalid ones.
const REQUESTS: [&str; 8] = [
    r#"{"request":"status"}"#,
    r#"{"id":18446744073709551615,"request":"cancel","job":7}"#,
    r#"{"id":1,"request":"submit","target":"validator","archive":"/a/snapshot-39.tar.zst","incremental":null}"#,
    r#"{"request":"submit","archive":"/\u00e9\"\n","incremental":"/b"}"#,
    r#"{"request":"watch","id":null}"#,
    r#"{"request":"metrics","id":-1}"#,
    r#"{"request":"reload","request":"pause","unknown":[]}"#,
    r#"[{"request":"resume"}]"#,
];

const SNAPSHOT: [&str; 6] = [
    "snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst\0fcversion\0d snapshots/\0\
     fasnapshots/status_cache\0d snapshots/39\0fasnapshots/39/39\0faaccounts/17.4\0faaccounts/39.1",
    "incremental-snapshot-39-47-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.zst\0\
     fcversion\0fasnapshots/47/47\0fasnapshots/status_cache\0faaccounts/40.0",
    "\0faaccounts/5.1\0d accounts/\0faaccounts/6.1\0fasnapshots/7/7\0faaccounts/7.2147483647",
    "\0faaccounts/5.1\0fasnapshots/4/4",
    "\0faaccounts/05.1\0l accounts/5.1\0faaccounts/18446744073709551616.1",
    "\0fgaccounts/5.1\0fhaccounts/6.1\0fiaccounts/7.1\0fjversion",
];

const ANY: [&str; 6] = [
    "\0d ./\0fa./a/b/c\0d a/b/\0d a\0faa/d\0fb\u{fc}ml\u{e4}ut",
    "\0faa\0faa/b\0d a",
    "\0faa/b\0faa\0d a/b",
    "\0fa../x\0fa/abs\0faa/../b\0faa//b\0faa/./b\0faa/\0d .\0d ./",
    "\0faa\u{202e}b\0faa\u{1b}b\0l a\0h b\0s c\0oVd",
    "\0faa/a/a/a/a/a/a/a/a/a/a/a\0d a/a\0fnb\0fob",
];

const TEXTS: [&[u8]; 6] = [
    b"accounts/1234.567",
    b"\\x1b\x1b[2J\r\n\x07\x7f\"quoted\"",
    "na\u{ef}ve \u{202e}\u{200b}\u{9b}31m \u{1f600} e\u{301} \u{65e5}\u{672c}".as_bytes(),
    b"ok\xff\xfe\xe2\x98 cut \xed\xa0\x80 surrogate \xf4\x90\x80\x80",
    b"1.2.0",
    b"v1.2.1\n",
];

fn header_blocks() -> Vec<(&'static str, Header)> {
    let gnu = |kind, path, size| Header::new(Dialect::Gnu, kind, path, size);
    vec![
        ("account", Header::account("accounts/17.4", 31_104)),
        ("file", gnu(b'0', "version", 5)),
        ("directory", gnu(b'5', "snapshots/", 0)),
        ("v7-directory", Header::new(Dialect::V7, 0, "old/", 0)),
        ("ustar", Header::new(Dialect::Ustar, b'0', "name", 3).prefix(b"some/where")),
        ("symlink", gnu(b'2', "soft", 0).link_name(b"target")),
        ("hard-link", gnu(b'1', "hard", 0).link_name(b"target")),
        ("binary-size", Header::account("accounts/1.1", 0).size_binary(1 << 40)),
        ("negative-size", Header::account("x", 0).patch(field::SIZE.start, &[0xff; 12])),
        ("sparse", gnu(b'S', "sparse", 600).patch(482, &[1])),
        ("long-name", gnu(b'L', "././@LongLink", 120)),
        ("pax", Header::new(Dialect::Ustar, b'x', "PaxHeaders/0", 30)),
        ("global", Header::new(Dialect::Ustar, b'g', "pax_global_header", 52)),
        ("volume", gnu(b'V', "label", 0)),
        ("high-bytes", gnu(b'0', "\u{e4}\u{f6}\u{fc}", 0)),
    ]
}

fn headers() -> Seeds {
    let made = header_blocks()
        .into_iter()
        .map(|(name, header)| (name.to_owned(), header.finish().to_vec()));
    made.chain([("genuine-account".to_owned(), genuine_account()[..512].to_vec())]).collect()
}

fn pax() -> Vec<Vec<u8>> {
    let long = "d/".repeat(100) + "file";
    vec![
        pax_record("path", "a/b"),
        [pax_record("path", &long), pax_record("size", "0")].concat(),
        [pax_record("mtime", "1.5"), pax_record("linkpath", "t"), pax_record("size", "12")]
            .concat(),
        [pax_record("GNU.sparse.major", "1"), pax_record("GNU.sparse.name", "n")].concat(),
        pax_record("comment", "0123456789abcdef0123456789abcdef01234567"),
        [pax_record("path", "a"), pax_record("path", "b")].concat(),
        b"12 path=a\nb\n25 comment=11 path=trap\n\n6 a=b\n".to_vec(),
        b"06 a=b\n".to_vec(),
        b"99999999999999999999 a=b\n".to_vec(),
        b"5 a=b\n".to_vec(),
        b"8 path=\n".to_vec(),
    ]
}

fn tars() -> Seeds {
    let long = "long/".repeat(30) + "name";
    let file = |path: &str| TarBuilder::new().file(path, b"text");
    let ustar = |path: &str, size| Header::new(Dialect::Ustar, b'0', path, size);
    let mut sparse_map = [0; 512];
    sparse_map[504] = 1;
    let sparse = |more: u8| {
        // One extent of 4 bytes at 0, in a file of 4 bytes.
        let extent = [&b"00000000000\0"[..], b"00000000004\0"].concat();
        Header::new(Dialect::Gnu, b'S', "sparse", 4)
            .patch(386, &extent)
            .patch(482, &[more])
            .patch(483, b"00000000004\0")
    };
    let small = TarBuilder::new()
        .file("version", b"1.2.0")
        .directory("snapshots/")
        .account("accounts/1.2", &content(600))
        .account("accounts/2.3", b"");
    let tars = vec![
        ("empty", TarBuilder::new().finish()),
        ("snapshot", small.clone().finish()),
        ("cut", small.clone().into_bytes()),
        ("one-zero-block", small.clone().zero_blocks(1).into_bytes()),
        ("stray-zero-block", small.clone().zero_blocks(1).file("x", b"y").finish()),
        ("data-behind", small.zero_blocks(2).file("x", b"y").finish()),
        ("long-names", {
            let tar = TarBuilder::new().long_name(long.as_bytes()).file("short", b"a");
            let tar = tar.long_link(long.as_bytes()).long_name(long.as_bytes());
            tar.symlink("link", "cut").hard_link("hard", "link").finish()
        }),
        ("pax", {
            let tar = TarBuilder::new().pax_global(&[("comment", "x")]);
            let tar = tar.pax(&[("path", &long), ("size", "3")]).entry(ustar("o", 0), b"abc");
            tar.pax(&[("linkpath", &long)]).symlink("soft", "t").finish()
        }),
        ("pax-conflict", {
            let tar = TarBuilder::new().pax(&[("size", "4")]).entry(ustar("a", 700), &[1; 700]);
            tar.finish()
        }),
        ("pax-and-gnu", {
            let tar = TarBuilder::new().pax(&[("path", "a")]).long_name(b"b").file("c", b"");
            tar.finish()
        }),
        ("pax-malformed", file("a").pax_raw(b'x', b"7 path=a\n").file("b", b"").finish()),
        ("dangling", file("a").pax(&[("path", "b")]).finish()),
        ("sparse", TarBuilder::new().entry(sparse(0), b"data").finish()),
        ("sparse-map", {
            let tar = TarBuilder::new().entry(sparse(1), &sparse_map).raw(&[0; 512]);
            tar.entry(Header::account("after", 0), b"").finish()
        }),
        ("v7", {
            let old = Header::new(Dialect::V7, 0, "old/", 0);
            TarBuilder::new().entry(old, &[]).file_in(Dialect::V7, "old/a", b"b").finish()
        }),
        ("ustar-prefix", {
            let header = ustar("name", 3).prefix(b"some/where");
            TarBuilder::new().entry(header, b"abc").finish()
        }),
        ("devices", {
            let special = |tar: TarBuilder, kind| {
                tar.entry(Header::new(Dialect::Gnu, kind, "special", 0), &[])
            };
            [b'3', b'4', b'6', b'7', b'V', b'M', b'Z'].into_iter().fold(file("a"), special).finish()
        }),
        ("directory-with-content", {
            let header = Header::new(Dialect::Gnu, b'5', "d", 5);
            TarBuilder::new().entry(header, b"hello").finish()
        }),
    ];
    let genuine = TarBuilder::new().raw(&genuine_account()).finish();
    named(tars).chain([("genuine-account".to_owned(), genuine)]).collect()
}

/// The first byte selects how the file is cut into pieces.
fn banks() -> Seeds {
    let lattice_hash = bank::lattice_hash(1);
    let spec = BankSpec {
        slot: 47,
        lattice_hash: &lattice_hash,
        capitalization: bank::CAPITALIZATION,
        storages: &[(39, 1, 4096), (47, 2, 8192)],
        vote_accounts: 1,
        seed: 1,
    };
    let file = bank::bank_file(&spec);
    // The bytes between head and tail are skipped, so a seed omits them.
    let short = [&file[..HEAD_BYTES], &file[file.len() - 3000..]].concat();
    let with = |by: u8, file: &[u8]| [&[by], file].concat();
    vec![
        ("block-id".to_owned(), with(11, &short)),
        ("no-block-id".to_owned(), with(3, &[&short[..short.len() - 33], &[0]].concat())),
        ("lattice-hash-only".to_owned(), with(0, &short[..short.len() - 33])),
        ("head-only".to_owned(), with(7, &file[..HEAD_BYTES])),
        ("too-many".to_owned(), with(7, &file[..200])),
    ]
}

/// Enough for everything before the stakes of a generated bank file.
const HEAD_BYTES: usize = 20_000;

fn fastboot() -> Seeds {
    let storages = [Storage { slot: 39, id: 1 }, Storage { slot: 47, id: 2 }];
    let list = |format: Format| format.encode_storages(&storages).expect("a short list");
    let seeds = vec![
        ("list-3", list(Format::V3)),
        ("list-5", list(Format::V5)),
        ("none", vec![0; 8]),
        ("version", b"1.2.0".to_vec()),
        ("version-3", b"3.0.0".to_vec()),
        ("version-5", b" 5.10.0\n".to_vec()),
    ];
    named(seeds).collect()
}

/// The first byte selects how the storage is cut into pieces.
fn storages() -> Seeds {
    let account = genuine_account();
    let size = crate::blocks::octal(&account[124..136]).unwrap_or(0);
    let genuine = &account[512..][..usize::try_from(size).expect("small")];
    let record = |key: u8, data: &[u8]| {
        let header = RecordHeader {
            data_len: data.len() as u64,
            pubkey: [key; 32],
            lamports: 1,
            rent_epoch: u64::MAX,
            owner: [2; 32],
            executable: 0,
        };
        let padding = data.len().next_multiple_of(8) - data.len();
        [&header.to_bytes(), data, &[0; 8][..padding]].concat()
    };
    let rows = [record(1, b""), record(2, &content(165)), record(3, &content(700))].concat();
    let seeds = vec![
        ("genuine", [&[9], genuine].concat()),
        ("rows", [&[0], &rows[..]].concat()),
        ("zeros-behind", [&[5], &rows[..], &[0; 300]].concat()),
        ("cut", [&[7], &rows[..rows.len() - 9]].concat()),
        ("end-first", [&[1], &[0; 136][..], &rows].concat()),
    ];
    named(seeds).collect()
}

fn zstd() -> Vec<(&'static str, Vec<u8>)> {
    let raw = TarBuilder::new().account("accounts/1.2", &content(400)).finish();
    let (half, rest) = raw.split_at(raw.len() / 2);
    let sized = |raw: &[u8], checksum| zstd_one_frame(raw, 1, None, checksum, true);
    let streamed = |raw: &[u8], checksum| zstd_one_frame(raw, 1, None, checksum, false);
    let empty = || [zstd_one_frame(&[], 1, None, true, true), zstd_raw_blocks(&[], 9)].concat();
    let long = content(9000);
    let lie = {
        let mut lie = zstd_one_frame(&raw[..300], 1, Some(10), false, true);
        lie[6] ^= 1;
        lie
    };
    vec![
        ("one-frame", streamed(&raw, false)),
        ("one-frame-checksum", streamed(&raw, true)),
        ("sized", sized(&raw, false)),
        ("sized-checksum", sized(&raw, true)),
        ("sized-frames", zstd_frames(&raw, 500, 1)),
        ("unsized-frames", zstd_frames_unsized(&raw, 700, 1)),
        ("raw-blocks", zstd_raw_blocks(&raw, 777)),
        ("runs", zstd_rle_blocks(7, 5000, 1000)),
        ("bomb", zstd_rle_blocks(0, 3 << 20, 128 << 10)),
        ("firedancer", zstd_firedancer(&raw, 1)),
        ("empty-frames", [empty(), sized(half, false), empty(), streamed(rest, true)].concat()),
        ("skippable-first", [skippable_frame(b""), streamed(&raw, false)].concat()),
        (
            "skippable-within",
            [sized(half, true), skippable_frame_numbered(15, b"note"), sized(rest, true)].concat(),
        ),
        ("small-window", zstd_one_frame(&long, 19, Some(10), true, false)),
        ("level-19", zstd_one_frame(&long, 19, None, false, true)),
        ("mixed", zstd_mixed(&long, 3)),
        ("lie", lie),
        ("trailing", [sized(&raw, false), b"garbage".to_vec()].concat()),
        ("dictionary", [&[0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x48, 0x07][..], &[1, 0, 0]].concat()),
        (
            "largest-size",
            [&[0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x38][..], &[0xff; 8], &[0x21, 0, 0], b"text"]
                .concat(),
        ),
        ("window-2-gib", [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3][..], &[1, 0, 0]].concat()),
    ]
}

fn lz4() -> Seeds {
    let raw = content(3000);
    let framed = |info: FrameInfo| {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(&raw).expect("lz4 takes any bytes");
        encoder.finish().expect("lz4 takes any bytes")
    };
    let info = || FrameInfo::new().block_size(BlockSize::Max64KB);
    // Magic, version 1 with independent blocks, 64 KiB, header checksum.
    let bare = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    let seeds = vec![
        ("agave", lz4_frame(&raw)),
        ("frames", lz4_frames(&raw, 1000)),
        ("independent", framed(info().block_mode(BlockMode::Independent))),
        ("block-checksums", framed(info().block_checksums(true))),
        ("content-size", framed(info().content_size(Some(raw.len() as u64)))),
        ("largest-blocks", framed(FrameInfo::new().block_size(BlockSize::Max4MB))),
        ("empty", lz4_frame(b"")),
        ("no-blocks", [&bare[..], &[0; 4]].concat()),
        ("no-end", bare.to_vec()),
        ("empty-stored-block", [&bare[..], &[0, 0, 0, 0x80], &[0; 4]].concat()),
        ("empty-block", [&bare[..], &[1, 0, 0, 0, 0], &[0; 4]].concat()),
        ("empty-block-cut", [&bare[..], &[0, 0, 0, 0x80]].concat()),
        ("skippable", [lz4_frame(b"a"), skippable_frame(&[9; 30]), lz4_frame(b"b")].concat()),
        ("trailing", [lz4_frame(b"a"), b"garbage".to_vec()].concat()),
        ("runs", lz4_frame(&[7; 20_000])),
        ("cut", lz4_frame(&raw)[..900].to_vec()),
    ];
    let genuine = data(
        "agave-tiny-lz4/incremental-snapshot-11-14-5ZTTtfzY3zxrMzs24ujdsdgDdeV7vpQsodZW29Fv8C93.tar.lz4",
    );
    named(seeds).chain([("genuine-cut".to_owned(), genuine[..8000].to_vec())]).collect()
}

/// Frames of the zstd project's tests, and the beginning of an archive written by Agave.
fn genuine_zstd() -> Seeds {
    let mut seeds: Seeds = ["golden-decompression", "golden-decompression-errors"]
        .into_iter()
        .flat_map(|folder| {
            let path = root().join("tests/data/zstd-golden").join(folder);
            let files = fs::read_dir(path).expect("test data is checked in");
            files.map(|file| file.expect("a readable folder").path())
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "zst"))
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, fs::read(path).expect("test data is checked in"))
        })
        .filter(|(_, bytes)| bytes.len() <= crate::INPUT_BYTES_MAX)
        .collect();
    seeds.push(("genuine-cut".to_owned(), genuine_incremental()[..8000].to_vec()));
    seeds.sort();
    seeds
}

fn genuine_incremental() -> Vec<u8> {
    data(
        "agave-tiny/incremental-snapshot-39-47-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.zst",
    )
}

/// Returns the smallest account file in an archive written by Agave: its header and content.
fn genuine_account() -> Vec<u8> {
    let archive = genuine_incremental();
    let mut tar = Vec::with_capacity(8 << 20);
    zstd_safe::decompress(&mut tar, &archive).expect("test data is whole");
    let mut accounts: Vec<&[u8]> = Vec::new();
    let mut at = 0;
    while let Some(header) = tar.get(at..at + 512).filter(|header| header[0] != 0) {
        let size = crate::blocks::octal(&header[124..136]).unwrap_or(0);
        let end = at + 512 + usize::try_from(size).expect("small").next_multiple_of(512);
        if header.starts_with(b"accounts/") && size > 0 {
            accounts.push(&tar[at..end]);
        }
        at = end;
    }
    let smallest = accounts.into_iter().min_by_key(|account| account.len());
    smallest.expect("a snapshot has accounts").to_vec()
}

fn data(name: &str) -> Vec<u8> {
    fs::read(root().join("tests/data").join(name)).expect("test data is checked in")
}
