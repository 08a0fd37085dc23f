//! Unpacking with progress, and an end at any time.
//!
//! ```sh
//! cargo run --release -p unsnap-unpack --example progress -- <archive> <directory>
//! ```
#![allow(clippy::print_stdout)] // a program for people

use std::{
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use unsnap_pass::{Archive, Handles};
use unsnap_source::DigestKind;
use unsnap_unpack::{DigestUse, Options, Single, Tree, Unpacker};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(archive), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("give an archive and a directory".into());
    };
    let source = Single::snapshot(Archive::File(archive.into()));
    let digest = DigestUse::Report(DigestKind::Xxh3);
    let options = Options::for_tree(source, Tree::new(directory), digest);

    let handles = Handles::default();
    let Handles { progress, cancel } = handles.clone();
    let (end, ended) = channel::<()>();
    let watcher = thread::spawn(move || {
        while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            println!("{:?}", progress.snapshot());
        }
        // From any thread, at any time: the run ends, and the directory is as it was.
        cancel.cancel();
    });
    let report = Unpacker::new(options).with_handles(handles).run();
    drop(end);
    watcher.join().map_err(|_| "the watcher panicked")?;
    let report = report?;
    println!("{} files, limited by {}", report.files, report.limited_by);
    Ok(())
}
