//! Command line of `ledger-tool`.

mod exports;
mod fastboot;
mod packing;
mod parts;
mod shared;
mod shell;
mod tables;
mod unpacking;
mod whole;

use clap::{Parser, Subcommand};
pub use unsnap_cli::args::{OutputArgs, ReportFormat};

use crate::{
    bench::{self, BenchArgs},
    doctor::{self, DoctorArgs},
    exit::Exit,
    service::args::{SERVICE_EXAMPLES, ServiceArgs},
};
pub use exports::{CheckExportArgs, LookupArgs};
pub use fastboot::{FastbootAction, FastbootArgs, LookAfterArgs, PlacesArgs, PrepareArgs};
pub use packing::{
    AccountsArgs, AccountsFormat, CreateArgs, DiffArgs, DiffFormat, FrameArgs, RepackArgs,
};
pub use parts::{ExtractArgs, ExtractFormat, IndexMakeArgs, InspectArgs};
pub use shared::{Layout, Pubkey, parse_pubkey};
pub use shell::{CompletionsArgs, ManArgs};
pub use tables::{ExportArgs, FilterArgs, Keys, Table, TableFormat};
pub use unpacking::{DigestArg, UnpackArgs};
pub use whole::{ListArgs, ListFormat, VerifyArgs};

/// Unpack and examine a validator's snapshot archives
///
/// Exit codes: 0 success; 1 bad archive; 2 invalid request; 3 environment (disk full, I/O error, a
/// limit); 4 destination not empty, or in use; 5 done, but the report could not be printed; 130
/// interrupted, 143 terminated. Unless the exit code is 0 or 5, the destination is as it was.
#[derive(Debug, Parser)]
#[command(name = "ledger-tool", version, propagate_version = true, max_term_width = 100,
    after_long_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Unpack an archive into a durable directory
    ///
    /// The files get their final names only when all of them are complete and on disk. After a
    /// failure or an interruption the destination is as it was.
    #[command(after_long_help = unpacking::UNPACK_EXAMPLES)]
    Unpack(Box<UnpackArgs>),
    /// List an archive's entries
    ///
    /// Reads the whole archive and checks that it is complete, as unpacking does, but accepts any
    /// tar. With an index (`ledger-tool index`), lists the index and does not read the archive.
    #[command(after_long_help = whole::LIST_EXAMPLES)]
    List(ListArgs),
    /// Show an archive's frames, producer and bank file
    ///
    /// Reads the headers and the part that holds the bank file, which a validator writes first.
    /// Lists what it has not examined. Exits with 1 if the archive is cut or damaged there, or if
    /// the bank file does not match the archive's name; prints all that is known even then.
    #[command(after_long_help = parts::INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Extract single entries or accounts from an archive
    ///
    /// Entries appear in the directory when all of them are complete and on disk. With an index
    /// (`ledger-tool index`), reads and decodes only the frames that hold them; without one, reads
    /// the archive from its beginning.
    #[command(after_long_help = parts::EXTRACT_EXAMPLES)]
    Extract(ExtractArgs),
    /// Write an index of an archive beside it
    ///
    /// Reads the whole archive once, checks that it is complete, and writes ARCHIVE.unsnap-index:
    /// the position of every frame and entry, and the archive's digest. list, inspect and extract
    /// use the index to read less; unpack uses it to know exactly how much it will write.
    #[command(after_long_help = parts::INDEX_EXAMPLES)]
    Index(IndexMakeArgs),
    /// Check that an archive holds what its name says
    ///
    /// Reads and decodes the whole archive, checks that it is complete, and adds up all accounts.
    /// Their hashes must add up to the hash in the archive's name, and their lamports to the
    /// capitalization in its bank file. Writes nothing except a temporary file, if memory does not
    /// suffice.
    #[command(after_long_help = whole::VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Rewrite an archive in frames that several threads can unpack
    ///
    /// Only one thread can unpack lz4 and archives of one zstd frame (Agave up to 4.2). The new
    /// archive has many zstd frames: an entry that does not fit into the current frame begins a new
    /// one, and every frame declares its size. The tar stream inside is the same, byte for byte:
    /// each frame is decoded again and compared before it is written. Validators, `zstd -d` and
    /// Firedancer read the result. Refuses whatever `unpack --dry-run` refuses.
    #[command(after_long_help = packing::REPACK_EXAMPLES)]
    Repack(RepackArgs),
    /// Make an archive of a directory
    ///
    /// The directory is a tree as `unpack` makes it, or a state as `fastboot prepare` makes it,
    /// whose storages are in the accounts paths. The archive's name follows from the bank file.
    /// Entries and headers are those of a validator; storages come in the order of their slots. If
    /// a file changes meanwhile, the command fails, so nothing may write to the directory. The
    /// archive gets its name when it has been read again and verified; --verify accounts checks
    /// that the accounts add up to the hash in the name.
    #[command(after_long_help = packing::CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// Compare the storages and accounts of two snapshots
    ///
    /// Compares storages by slot, and accounts by their newest version. A snapshot is one archive,
    /// or a full archive with its incremental one. Reads all archives completely, one after the
    /// other, and prints nothing until all have proved to be complete. Exits with 0 whether or not
    /// the snapshots differ, unless --exit-code is given.
    #[command(after_long_help = packing::DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// List the accounts of an archive
    ///
    /// Lists every record of every storage in the order of the archive, or only selected ones. A
    /// record is one stored version of an account. Rely on the output only if the exit code is 0.
    #[command(after_long_help = packing::ACCOUNTS_EXAMPLES)]
    Accounts(AccountsArgs),
    /// Write the accounts of an archive as tables for databases and data frames
    ///
    /// Reads the archive once, with every check of unpacking, and writes its accounts as Parquet
    /// files, which DuckDB, DataFusion, polars, pandas, Spark, Trino and ClickHouse read. A row is
    /// one record: one stored version of an account. The directory gets its name when everything in
    /// it is complete and on disk; its file _manifest.json tells what it holds. After a failure or
    /// an interruption nothing remains.
    #[command(after_long_help = tables::EXPORT_EXAMPLES)]
    Export(Box<ExportArgs>),
    /// Check that an export is what its manifest and its archives say
    ///
    /// Reads all files of the tables. Their bytes, rows and row groups must be those that were written,
    /// and there must be no other file. If the table of accounts holds all accounts of a bank (--newest,
    /// no filter), their lamports must add up to its capitalization and, with their data, their hashes
    /// to the hash in the archive's name. With --archive, the rows are compared with the accounts of
    /// the archive as well.
    #[command(after_long_help = exports::CHECK_EXPORT_EXAMPLES)]
    CheckExport(CheckExportArgs),
    /// Look up accounts in an export, in a directory or on a server
    ///
    /// Reads the footers of the tables' files and, by the statistics in them, only the parts that may
    /// hold one of the addresses. If the addresses are in the order of an archive, these are all
    /// addresses. Prints the rows, what is not there, and how much was read. To look up accounts in an
    /// archive, use `extract --account` or `accounts --pubkeys`.
    #[command(after_long_help = exports::LOOKUP_EXAMPLES)]
    Lookup(LookupArgs),
    /// Prepare and manage the state that a validator starts from without unpacking
    ///
    /// A state is a directory snapshots/SLOT with the storages in the accounts paths. Agave 4.2 or
    /// later starts from it instead of the archives (--use-snapshot-archives-at-startup
    /// when-newest, the default). Run these commands as the validator's user. Except for `status`
    /// and --beside, they refuse to work while a validator is running on the ledger.
    #[command(after_long_help = fastboot::FASTBOOT_EXAMPLES)]
    Fastboot(FastbootArgs),
    /// Query and control the service unpackd
    ///
    /// Exit codes: 1 the archive is bad; 2 there is no such job or target, or the new configuration
    /// is invalid; 3 the service cannot be reached, or refuses; 4 it is busy.
    #[command(after_long_help = SERVICE_EXAMPLES)]
    Service(ServiceArgs),
    /// Check what makes unsnap slow or unsafe on this machine
    ///
    /// Checks the kernel, io_uring, limits, control groups, processors and memory; and for each
    /// path the file system, direct I/O, space and the disk's queue. Each check has a verdict: ok;
    /// note (worth knowing; no effect on speed or safety); warning (unsnap is slower or less safe
    /// than it could be on such a machine); problem (unsnap would fail, or what it reports as
    /// durable might not be). Exits with 3 if there is a warning or a problem, otherwise with 0.
    /// Writes nothing but an unnamed file of 4 KiB in each directory given.
    #[command(after_long_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Measure what limits unpacking on this machine, and which flags make it faster
    ///
    /// Unpacks an archive repeatedly, with a cold cache, in each way that a flag may select. Also
    /// reads, decodes and writes the same data alone. Reports the stage that limits a run, how much
    /// longer the run takes than that stage alone, and the flags to use. Takes some minutes, in which
    /// the disk and the processors are busy; first prints how much it will write. Removes all its
    /// files, also after an interruption.
    #[command(after_long_help = bench::EXAMPLES)]
    Bench(BenchArgs),
    /// Print the completion script for a shell
    ///
    /// The Debian package installs the scripts of all programs. Use this command after building
    /// from source.
    #[command(after_long_help = shell::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print a manual page
    ///
    /// Prints the format that man(1) reads. The Debian package installs the pages of all programs.
    #[command(after_long_help = shell::MAN_EXAMPLES)]
    Man(ManArgs),
}

const EXAMPLES: &str = "\
Examples:
  Unpack a snapshot:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --output /mnt/ledger/unpacked

  Identify an archive:
    ledger-tool inspect snapshot-39-<HASH>.tar.zst

  Prepare the state that a validator starts from without unpacking:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts";

impl Command {
    /// Returns how the process ends on this error: `diff --exit-code` has codes of its own.
    pub fn exit(&self, exit: Exit) -> Exit {
        match self {
            Self::Diff(args) if args.exit_code => exit.of_comparison(),
            _ => exit,
        }
    }

    pub fn output_control(&self) -> OutputArgs {
        match self {
            Self::Verify(args) => args.output_control,
            Self::Repack(args) => args.output_control,
            Self::Create(args) => args.output_control,
            Self::Diff(args) => args.output_control,
            Self::Accounts(args) => args.output_control,
            Self::Export(args) => args.output_control,
            Self::CheckExport(args) => args.output_control,
            Self::Lookup(args) => args.output_control,
            Self::Fastboot(args) => args.output_control(),
            Self::Service(args) => args.action.ask().output_control,
            Self::Unpack(args) => args.output_control,
            Self::Inspect(args) => args.output_control,
            Self::Extract(args) => args.output_control,
            Self::Index(args) => args.output_control,
            Self::List(args) => args.output_control,
            Self::Doctor(args) => args.output_control,
            Self::Bench(args) => args.output_control,
            // They print nothing but the requested text.
            Self::Completions(_) | Self::Man(_) => OutputArgs::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use unsnap_cli::args::DirectIo;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn direct_io_without_a_value_means_on() {
        let parse = |flags: &[&str]| {
            let words = ["ledger-tool", "unpack", "a", "--output", "b"].iter().chain(flags);
            match Cli::try_parse_from(words).unwrap().command {
                Command::Unpack(args) => args.io.use_direct_io,
                _ => unreachable!(),
            }
        };
        assert_eq!(parse(&[]), DirectIo::Auto);
        assert_eq!(parse(&["--use-direct-io"]), DirectIo::On);
        assert_eq!(parse(&["--use-direct-io=off"]), DirectIo::Off);
    }
}
