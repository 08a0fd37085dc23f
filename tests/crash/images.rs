//! Images of the disk, taken while the program runs: each is what a power cut at that moment would
//! have left, and many can be taken of one run.
//!
//! The disk lies in a file on an XFS that shares blocks between files, so an image of it is a copy
//! that takes no time and is of one moment (`cp --reflink`; XFS locks both files meanwhile). What
//! the device has been given is in the image, what waits in the page cache is not.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Duration,
};

use unsnap_test_support::{
    disk::{self, Disk, KINDS, Kind, Options, can_lose_power, command},
    finish, ledger_tool, seed, skip_unsupported,
};
use unsnap_testkit::random::Random;

use crate::{
    law::{Case, Found, Shape},
    stage::{Subject, random_flags, rounds, tell},
};

/// Of each run.
const IMAGES: usize = 8;

/// Takes an image; whether it could be.
fn take(image: &Path, copy: &Path) -> Result<(), String> {
    disk::run(command("cp", &["--reflink=always"]).args([image, copy])).map(drop)
}

/// Repairs an image as a boot would, and says what is at its destination.
fn judge(kind: Kind, copy: &Path, subject: &Subject, reported: bool) -> Result<Found, String> {
    if kind == Kind::Ext4 {
        let output = command("e2fsck", &["-fp"]).arg(copy).output().unwrap();
        // 1: errors were corrected, such as counts that a journal does not cover.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(format!("e2fsck: {output:?}"));
        }
    }
    let disk = Disk::of_image(kind, copy).ok_or("the image cannot be mounted")?;
    let output = disk.path().join("output");
    let (accounts, expected) = (&output, &subject.expected);
    Case { shape: Shape::Absent, output: &output, accounts, expected }.judge(reported)
}

#[test]
fn images_of_the_disk_hold_all_or_nothing() {
    if !can_lose_power() {
        return;
    }
    let test = "images_of_the_disk_hold_all_or_nothing";
    let seed = seed(test);
    let subject = Subject::new();
    let options = Options { size_bytes: 512 << 20, memory_bytes: 600 << 20, sector_bytes: 512 };
    let Some(holder) = Disk::new(Kind::Xfs, &options) else { return };
    for kind in KINDS {
        let mut random = Random::of(&[seed, kind as u64]);
        let (mut before, mut after) = (0, 0);
        for round in 0..rounds(3) {
            let place = holder.path().join(format!("{kind:?}-{round}"));
            fs::create_dir(&place).unwrap();
            let Some(disk) = Disk::within(kind, &Options::default(), &place) else { return };
            let image = place.join("image");
            let output = disk.path().join("output");
            let flags = random_flags(&mut random);
            let what = format!("seed {seed}, {kind:?}, round {round}, {flags:?}");
            let mut tool = ledger_tool();
            tool.arg("unpack").arg(&subject.archive).args(["--verify", "none"]);
            tool.arg("--output").arg(&output).args(&flags);
            let mut child = tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut images: Vec<(PathBuf, bool)> = Vec::new();
            for number in 0..IMAGES {
                thread::sleep(Duration::from_micros(random.below(12_000)));
                // Before the image: what ends in between may or may not be in it.
                let reported = child.try_wait().unwrap().is_some();
                let copy = place.join(format!("copy-{number}"));
                if let Err(error) = take(&image, &copy) {
                    // The tool is there and the image is on XFS: a kernel without reflinks.
                    skip_unsupported(format_args!("no images of one moment: {error}"));
                    drop(finish(child));
                    return;
                }
                images.push((copy, reported));
            }
            finish(child).assert_code(0);
            let last = place.join("copy-last");
            take(&image, &last).unwrap();
            images.push((last, true));
            drop(disk);
            for (copy, reported) in images {
                let name = copy.display();
                match judge(kind, &copy, &subject, reported) {
                    Ok(Found::Complete) => after += 1,
                    Ok(_) => before += 1,
                    Err(broken) => panic!("{what}, {name}, reported: {reported}: {broken}"),
                }
            }
            fs::remove_dir_all(&place).unwrap();
        }
        tell(format_args!(
            "{test}: {kind:?}: {before} images untouched, {after} complete, seed {seed}"
        ));
    }
}
