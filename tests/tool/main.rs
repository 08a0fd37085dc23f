//! What `ledger-tool` does beside unpacking, by the program itself, and held to independent code:
//! the crates tar and zstd, plain scans, and the tools of the same names.
//!
//! | module | proves |
//! |---|---|
//! | [`lookup`] | entries are the same bytes with an index and without, for archives of every shape; stale, damaged and lying indexes |
//! | [`account`] | the newest versions of single accounts are those that a plain scan finds |
//! | [`inspect`] | what archives are said to be |
//! | [`bad_input`] | what is refused: by a clear error and the right exit code, with nothing under a final name |
//! | [`environment`] | full, failing and read-only disks, and SIGKILL: errors that name the path, and nothing left |
//! | [`second_signal`] | an impatient user is told what stays behind |
//! | [`seek_table`] | seek tables are used where frames bear them out, and passed over where not |
//! | [`repack`] | the same tar stream in frames that begin with entries, or nothing |
//! | [`create`] | directories become archives that validators would have written |
//! | [`accounts`] | accounts are listed as a plain scan finds them |
//! | [`export`] | tables hold the accounts of the archives, and engines give the right answers |
//! | [`diff`] | differences are those that a plain scan finds |
//! | [`doctor`] | what makes unsnap slow or unsafe is told, with the right exit code, and nothing is left behind |
//! | [`documents`] | the documents for operators name only flags, settings and metrics that exist |
//! | [`examples`] | every example of every `--help` of all programs does what it says |
//! | [`shell`] | completions complete and manual pages show what `--help` tells, in real shells and by man |
//! | [`pipes`] | a reader that has had enough is no error, and nothing is said about it |
//! | [`progress`] | everything that takes its time shows how far it is, how fast, and how long it will take |
//! | [`remote`] | archives from servers are the same as files, whatever servers do |
//! | [`remote_resume`] | a killed run goes on where it was, with the same archive only |
//! | [`remote_state`] | a state is made of archives from servers, which are kept, or nothing is lost |
//! | [`peers`] | of several servers the fastest sends the archive, and another one if it fails |
//! | [`tee`] | an archive from a server is kept byte for byte, or nothing of it |
//! | [`unpacking`] | manifests, dry runs and pairs are reported and refused as documented |
//! | [`outputs`] | who makes the directory of a result: the same rule for all commands |
//! | [`programs`] | (the programs, as their `--help` tells of them) |
//! | [`bench`] | what is measured is told in every form, and everything that was made is removed |
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod account;
mod accounts;
mod bad_input;
mod bench;
mod create;
mod diff;
mod doctor;
mod documents;
mod environment;
mod examples;
mod export;
mod inspect;
mod lookup;
mod outputs;
mod peers;
mod pipes;
mod programs;
mod progress;
mod remote;
mod remote_resume;
mod remote_state;
mod repack;
mod scan;
mod second_signal;
mod seek_table;
mod shell;
mod stream;
mod tee;
mod unpacking;
