//! The program `make-seeds`: writes the seeds of all targets.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml -p unsnap-fuzz-targets`
//!
//! Other existing files, such as former findings, are left alone.

use std::{fs, io};

use unsnap_fuzz_targets::{TARGETS, seeds};

fn main() -> io::Result<()> {
    for target in TARGETS {
        let folder = seeds::folder(target.name);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in seeds::of(target.name) {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
