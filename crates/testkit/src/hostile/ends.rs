//! Archives that end too early, too late, or twice. Separate tests truncate archives at every byte.

use super::{Construct, behind, blocks, constructs, good_beginning, good_tar};
use crate::compress;
use crate::spec::Compression;
use crate::tar::{Header, TarBuilder};

constructs![
    nothing,
    nothing_but_zeros,
    no_end,
    one_zero_block,
    one_zero_block_and_more_entries,
    half_of_the_second_zero_block,
    cut_in_a_header,
    cut_in_a_payload,
    cut_in_padding,
    content_that_is_not_there,
    zeros_behind_the_end,
    part_of_a_block_of_zeros_behind_the_end,
    a_byte_behind_the_end,
    a_byte_far_behind_the_end,
    an_entry_behind_the_end,
    two_archives,
    two_archives_of_a_frame_each,
    half_an_archive_twice,
];

/// Returns a good snapshot without its end.
fn open() -> TarBuilder {
    good_beginning().account("accounts/99.9", b"the last")
}

/// A download that has not begun.
fn nothing() -> Construct {
    Construct::tar(Vec::new()).refused(None, "the archive is empty")
}

/// An archive without entries: valid, but not a snapshot.
fn nothing_but_zeros() -> Construct {
    let frame = compress::zstd_one_frame(&[0; 10_240], 1, None, false, true);
    Construct::of(frame, Compression::Zstd)
        .refused_as_snapshot(None, "has no version")
        .accepted_as_any_with(Vec::new())
}

/// Most readers treat the end of the file as the end of the archive, so a download truncated
/// between two entries looks complete.
fn no_end() -> Construct {
    let at = open().len();
    Construct::tar(open().into_bytes()).refused(at, "without an end marker (0 of 2 zero blocks")
}

/// Truncated one block later.
fn one_zero_block() -> Construct {
    let at = open().len() + blocks(1);
    Construct::tar(open().zero_blocks(1).into_bytes())
        .refused(at, "without an end marker (1 of 2 zero blocks")
}

/// tar-core's `StrayZeroBlock`: some readers see the entries after it (GNU tar with -i), others do
/// not.
fn one_zero_block_and_more_entries() -> Construct {
    let at = open().len() + blocks(1);
    Construct::tar(open().zero_blocks(1).account("accounts/97.1", b"hidden").finish())
        .refused(at, "single zero block")
}

/// The end of a file that was still being written.
fn half_of_the_second_zero_block() -> Construct {
    let at = open().len() + blocks(1) + 100;
    Construct::tar(open().zero_blocks(1).raw(&[0; 100]).into_bytes())
        .refused(at, "without an end marker (1 of 2 zero blocks")
}

/// Truncates a good snapshot to this many bytes.
fn cut(length: usize) -> Construct {
    let mut tar = good_tar();
    tar.truncate(length);
    Construct::tar(tar)
}

/// Part of a header.
fn cut_in_a_header() -> Construct {
    let at = behind() + 300;
    cut(at).refused(at, "inside a header: 300 of 512 bytes present")
}

/// astral-tokio-tar's DIFF-039: a payload that ended early became a shorter file.
fn cut_in_a_payload() -> Construct {
    let at = behind() - blocks(2) + 100;
    cut(at).entry("accounts/90.7").refused(at, "100 of 600 bytes present")
}

/// A complete payload without all of its padding.
fn cut_in_padding() -> Construct {
    let at = behind() - 100;
    cut(at).refused(at, "without an end marker (0 of 2 zero blocks")
}

/// A size that reaches beyond the end and swallows the entries in between.
fn content_that_is_not_there() -> Construct {
    let tar = good_beginning()
        .entry(Header::account("accounts/98.1", 1 << 20), &[])
        .account("accounts/99.9", b"the last")
        .finish();
    let at = tar.len();
    Construct::tar(tar).entry("accounts/98.1").refused(at, "of 1048576 bytes present")
}

/// The normal output of tar: archives are padded to ten kilobytes, or to a tape's block.
fn zeros_behind_the_end() -> Construct {
    let tar = [good_tar(), vec![0; 1 << 20]].concat();
    Construct::tar(tar).accepted(&[])
}

/// Padding that is not a multiple of a block.
fn part_of_a_block_of_zeros_behind_the_end() -> Construct {
    Construct::tar([good_tar(), vec![0; 77]].concat()).accepted(&[])
}

/// Bytes that no reader looks at: a hiding place.
fn a_byte_behind_the_end() -> Construct {
    let at = good_tar().len();
    Construct::tar([&good_tar()[..], b"\n"].concat()).refused(at, "data after the end")
}

/// The same after a megabyte of zeros.
fn a_byte_far_behind_the_end() -> Construct {
    let at = good_tar().len() + (1 << 20);
    Construct::tar([good_tar(), vec![0; 1 << 20], vec![1]].concat())
        .refused(at, "data after the end")
}

/// Entries hidden from all readers except those that ignore zeros (GNU tar with -i).
fn an_entry_behind_the_end() -> Construct {
    let at = good_tar().len();
    let hidden = TarBuilder::new().account("accounts/97.1", b"hidden").finish();
    Construct::tar([good_tar(), hidden].concat()).refused(at, "data after the end")
}

/// `cat a.tar b.tar`: one archive to some readers, two to others.
fn two_archives() -> Construct {
    let at = good_tar().len();
    let second = TarBuilder::new().file("version", b"1.2.0").finish();
    Construct::tar([good_tar(), second].concat()).refused(at, "data after the end")
}

/// The same, compressed: concatenated frames are one stream in zstd.
fn two_archives_of_a_frame_each() -> Construct {
    let at = good_tar().len();
    let frame = compress::zstd_one_frame(&good_tar(), 1, None, true, true);
    Construct::of(frame.repeat(2), Compression::Zstd).refused(at, "data after the end")
}

/// The result of a broken download resumption: the beginning, followed by the whole.
fn half_an_archive_twice() -> Construct {
    let half = good_tar()[..behind()].to_vec();
    Construct::tar([half, good_tar()].concat())
        .entry("version")
        .refused(behind(), "occurs twice in the archive")
}
