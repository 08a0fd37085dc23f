complete -c unsnap-validator -l verify -d 'Checks on the archives\' content during unpacking' -r -f -a "none\t'No checks beyond the archive format'
structure\t'The bank file matches the archive\'s name, and every storage is a sequence of accounts'
accounts\t'The same, and all accounts add up to the hash in the archive\'s name'"
complete -c unsnap-validator -l verify-memory -d 'With --verify accounts: memory for the list of accounts, 16 bytes for each record; the rest goes to an unnamed file in the destination [default: 1GiB]' -r
complete -c unsnap-validator -l fastboot-format -d 'Format of the list of storages; auto is 3, which Agave 4.2 to 4.5 read' -r -f -a "auto\t'The format that most releases read'
3\t'3.0.0: Agave 4.2 to 4.5'
5\t'5.0.0: Agave 4.5 and later'"
complete -c unsnap-validator -l preflight -d 'How to check that the archives fit, before anything is written' -r -f -a "auto\t'Estimate from samples; if they leave a doubt, add up the sizes declared in all frame headers'
exact\t'Add up the sizes declared in all frame headers, however long that takes'
off\t'No check, same as --no-preflight'"
complete -c unsnap-validator -l preflight-time -d 'With --preflight auto: time limit for reading all frame headers, such as 30s [default: 2 s plus 1 s for each GB]' -r
complete -c unsnap-validator -l min-free -d 'Free space to leave to other programs on every file system that is written to: a size, a percentage, or both, of which the larger counts, such as 10GiB,2%; 0 for none' -r
complete -c unsnap-validator -l archive -d 'Address of an archive that counts as if it were in the validator\'s directories; may be repeated' -r -F
complete -c unsnap-validator -l max-behind -d 'Use an existing or ready state that is at most so many slots older than the newest archives' -r
complete -c unsnap-validator -l leave-cached -d 'Read the state\'s storages into the page cache while the validator starts' -r -f -a "auto\t'If the state lay ready, as far as there is memory to spare'
on\t'Always'
off\t'Never'"
complete -c unsnap-validator -l deadline -d 'Time limit for preparation (90s, 10m, 1h30m); after it, the validator unpacks the archives' -r
complete -c unsnap-validator -l format -d 'Format of the report of --prepare-only on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c unsnap-validator -l from-unit -d 'Take the directories from the command line of a systemd unit\'s validator, such as sol.service' -r
complete -c unsnap-validator -l from-pid -d 'Take the directories from the command line of a running validator, or of a script\'s child' -r
complete -c unsnap-validator -s l -l ledger -d 'Ledger [default: as in the validator\'s arguments]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l snapshots -d 'Archives and states [default: as in the validator\'s arguments]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l full-snapshot-archive-path -d 'Full archives [default: as in the validator\'s arguments, or --snapshots]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l incremental-snapshot-archive-path -d 'Incremental archives [default: as in the validator\'s arguments, or --snapshots]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l accounts -d 'Accounts paths [default: as in the validator\'s arguments]' -r -f -a "(__fish_complete_directories)"
complete -c unsnap-validator -l peer -d 'Server that redirects to its newest archives, such as a validator\'s RPC port; may be repeated' -r
complete -c unsnap-validator -l agree -d 'Number of hosts among the peers that must name the same slot and hash' -r
complete -c unsnap-validator -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c unsnap-validator -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c unsnap-validator -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c unsnap-validator -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c unsnap-validator -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c unsnap-validator -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c unsnap-validator -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c unsnap-validator -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c unsnap-validator -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c unsnap-validator -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c unsnap-validator -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c unsnap-validator -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c unsnap-validator -l rate-limit -d 'Maximum write rate for each destination device, in bytes per second, such as 100MB; 0 for no limit' -r
complete -c unsnap-validator -l io-class -d 'I/O priority: idle (only when no other process uses the disk), best-effort, or best-effort:N with N from 0 (highest) to 7' -r
complete -c unsnap-validator -l nice -d 'Niceness of all threads, from 0 to 19; negative values down to -20 need a privilege' -r
complete -c unsnap-validator -l cpus -d 'Processors to run on, such as 0-3,8' -r
complete -c unsnap-validator -l removal-files-per-second -d 'Maximum number of files of older states to remove per second while the new one is unpacked' -r
complete -c unsnap-validator -l attempts -d 'Number of validators that may end early with a state before it is withdrawn, and number of preparations in a row that may be killed before none is begun; 0 for no limit' -r
complete -c unsnap-validator -l crash-window -d 'Time within which a validator that is started again has ended early [default: 10m]' -r
complete -c unsnap-validator -l textfile -d 'Write metrics of this start to a file for node_exporter\'s textfile collector' -r -F
complete -c unsnap-validator -l on-event -d 'Execute a program with a report of this start as JSON on its standard input' -r -F
complete -c unsnap-validator -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c unsnap-validator -l no-preflight -d 'Skip the check, and unpack until a disk is full, or until less is free than --min-free says'
complete -c unsnap-validator -l replace -d 'Prepare a state even if one as new as the archives exists'
complete -c unsnap-validator -l no-shadow -d 'Do not keep a second hard link to each storage'
complete -c unsnap-validator -l prepare-only -d 'Prepare a state, and do not start the validator: exit code 0 if there is a state'
complete -c unsnap-validator -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c unsnap-validator -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c unsnap-validator -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c unsnap-validator -s v -l verbose -d 'Log each step; twice: log details'
complete -c unsnap-validator -l no-progress -d 'Hide progress'
complete -c unsnap-validator -s h -l help -d 'Print help (see more with \'--help\')'
complete -c unsnap-validator -s V -l version -d 'Print version'
