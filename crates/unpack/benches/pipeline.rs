//! The whole pipeline without output: reading, decoding and walking an archive without creating
//! files. The difference to `ledger-tool unpack` is the cost of the creators and the disk.
#![allow(missing_docs, clippy::unwrap_used)] // criterion's macros
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{fs::File, io::BufWriter, path::Path};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use unsnap_pass::{Archive, DirectMode};
use unsnap_testkit::{
    archive::write_archive,
    spec::{ArchiveSpec, Compression, Frames},
};
use unsnap_unpack::{CheckOutputs, Options, Single, Unpacker};

const RAW_BYTES: u64 = 256 << 20;

fn archive(directory: &Path, frames: Frames, compression: Compression) -> Archive {
    let spec =
        ArchiveSpec { total_bytes: RAW_BYTES, frames, compression, ..ArchiveSpec::default() };
    let path = directory.join(format!("{frames:?}-{compression:?}"));
    write_archive(&spec, &mut BufWriter::new(File::create(&path).unwrap())).unwrap();
    Archive::File(path)
}

fn bench(criterion: &mut Criterion) {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut group = criterion.benchmark_group("pipeline into nothing");
    group
        .sample_size(10)
        .sampling_mode(SamplingMode::Flat)
        .throughput(Throughput::Bytes(RAW_BYTES));
    for (name, frames, compression) in [
        ("zstd, one frame", Frames::One, Compression::Zstd),
        ("zstd, 32 MiB frames", Frames::AGAVE, Compression::Zstd),
        ("zstd, Firedancer's frames", Frames::Firedancer, Compression::Zstd),
        ("lz4", Frames::One, Compression::Lz4),
        ("plain", Frames::One, Compression::None),
    ] {
        let archive = archive(scratch.path(), frames, compression);
        for direct in [DirectMode::Off, DirectMode::On] {
            group.bench_function(format!("{name}, direct {direct:?}"), |run| {
                run.iter(|| {
                    let mut options =
                        Options::check(Single::snapshot(archive.clone()), CheckOutputs::default());
                    options.pass.io.direct = direct;
                    Unpacker::new(options).run().unwrap()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
