complete -c unsnap-validator -l verify -d 'What is checked of the archives\' content while it passes by' -r -f -a "none\t'Nothing beyond the archive itself'
structure\t'That the bank file is the one of the archive\'s name, and every storage a row of accounts'
accounts\t'The same, and that all accounts add up to the hash in the archive\'s name'"
complete -c unsnap-validator -l verify-memory -d 'With --verify accounts: memory for what is remembered of accounts, 16 bytes for each record; what is more goes to a file without a name beside the files [default: 1GiB]' -r
complete -c unsnap-validator -l fastboot-format -d 'Form of the list of storages; auto is 3, which Agave 4.2 to 4.5 read' -r -f -a "auto\t'What most releases read'
3\t'3.0.0: Agave 4.2 to 4.5'
5\t'5.0.0: Agave 4.5 and later'"
complete -c unsnap-validator -l preflight -d 'How it is found out, before anything is written, whether it fits' -r -f -a "auto\t'By the headers of all frames that declare their sizes; by an estimate where they do not, or where that would take too long'
exact\t'By the headers of all frames that declare their sizes, however long that takes'
off\t'Not at all, as with --no-preflight'"
complete -c unsnap-validator -l preflight-time -d 'With --preflight auto: how long the headers of all frames may be walked, such as 30s [default: 1 s and 50 ms for each GB, more where an estimate leaves a doubt]' -r
complete -c unsnap-validator -l deadline -d 'Give up preparing after so long (90s, 10m, 1h30m), and let the validator unpack the archives' -r
complete -c unsnap-validator -l format -d 'How to print the report of --prepare-only on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c unsnap-validator -s l -l ledger -d 'The ledger [default: as in the validator\'s arguments, or "ledger"]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l snapshots -d 'Archives and states [default: as in the validator\'s arguments, or the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l full-snapshot-archive-path -d 'Full archives [default: as in the validator\'s arguments, or that of the snapshots]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l incremental-snapshot-archive-path -d 'Incremental archives [default: as in the validator\'s arguments, or that of the snapshots]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l accounts -d 'Accounts paths [default: as in the validator\'s arguments, or "accounts" in the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are in the page cache already'
on\t'Always where it is a gain, or fail'
off\t'Never'"
complete -c unsnap-validator -l io-engine -d 'What carries out reads and writes' -r -f -a "auto\t'io_uring where the kernel has it, and plain threads for small files'
uring\t'io_uring, or fail'
threads\t'Plain threads'"
complete -c unsnap-validator -l decode-threads -d 'Threads that decode [default: as many as there are cores, at most 16]' -r
complete -c unsnap-validator -l memory-budget -d 'Memory for reading ahead and for decoded data, such as 512MiB [default: 128 MiB and 64 MiB for each decoding thread]' -r
complete -c unsnap-validator -l config -d 'Limits on what an archive may claim, from a file like config/ledger-tool.toml' -r -F
complete -c unsnap-validator -l rate-limit -d 'Bytes written to each destination device in a second at most, such as 100MB; 0 for no limit' -r
complete -c unsnap-validator -l io-class -d 'How urgent reads and writes are: idle (only when nobody else wants the disk), best-effort or best-effort:N, with N from 0 (most urgent) to 7' -r
complete -c unsnap-validator -l nice -d 'Niceness of all threads, from 0 to 19, or less with the privilege to' -r
complete -c unsnap-validator -l cpus -d 'Processors to run on, such as 0-3,8' -r
complete -c unsnap-validator -l removal-files-per-second -d 'Files of older states removed in a second while the new one is unpacked' -r
complete -c unsnap-validator -l color -d 'Colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Whatever standard error is'
never\t'None'"
complete -c unsnap-validator -l no-preflight -d 'Unpack even if it does not seem to fit, and go on until a disk is full'
complete -c unsnap-validator -l replace -d 'Prepare the archives even if there is a state as new as they are'
complete -c unsnap-validator -l no-shadow -d 'Do not keep second names of the storages'
complete -c unsnap-validator -l prepare-only -d 'Prepare, and end: exit code 0 if there is a state for the validator'
complete -c unsnap-validator -l hugetlb -d 'Use reserved huge pages (vm.nr_hugepages) if there are enough, before transparent ones'
complete -c unsnap-validator -l no-sandbox -d 'Do not confine the process before it looks at the archive'
complete -c unsnap-validator -s q -l quiet -d 'No progress, and no report in text (what is asked for in another format is printed); given twice, no warnings either'
complete -c unsnap-validator -s v -l verbose -d 'Log what is done; given twice, in detail'
complete -c unsnap-validator -l no-progress -d 'No progress'
complete -c unsnap-validator -s h -l help -d 'Print help (see more with \'--help\')'
complete -c unsnap-validator -s V -l version -d 'Print version'
