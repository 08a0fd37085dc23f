# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_ledger_tool_global_optspecs
    string join \n h/help V/version
end

function __fish_ledger_tool_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_ledger_tool_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_ledger_tool_using_subcommand
    set -l cmd (__fish_ledger_tool_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "unpack" -d 'Unpack an archive into a durable directory'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "list" -d 'List an archive\'s entries'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "inspect" -d 'Show an archive\'s frames, producer and bank file'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "extract" -d 'Extract single entries or accounts from an archive'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "index" -d 'Write an index of an archive beside it'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "verify" -d 'Check that an archive holds what its name says'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "repack" -d 'Rewrite an archive in frames that several threads can unpack'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "create" -d 'Make an archive of a directory'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "diff" -d 'Compare the storages and accounts of two snapshots'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "accounts" -d 'List the accounts of an archive'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "export" -d 'Write the accounts of an archive as tables for databases and data frames'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "check-export" -d 'Check that an export is what its manifest and its archives say'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "lookup" -d 'Look up accounts in an export, in a directory or on a server'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "fastboot" -d 'Prepare and manage the state that a validator starts from without unpacking'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "service" -d 'Query and control the service unpackd'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "doctor" -d 'Check what makes unsnap slow or unsafe on this machine'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "bench" -d 'Measure what limits unpacking on this machine, and which flags make it faster'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "completions" -d 'Print the completion script for a shell'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "man" -d 'Print a manual page'
complete -c ledger-tool -n "__fish_ledger_tool_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l incremental -d 'Incremental archive that builds on this one; with --dry-run, both are checked' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -s o -l output -d 'Output directory: created if absent, otherwise empty; its parent must exist' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l accounts -d 'Directories for the account files instead of accounts/ in the output; files are spread by size' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l layout -d 'Entries that the archive may contain' -r -f -a "snapshot\t'Only the entries of a validator\'s snapshot'
any\t'Files and directories under any safe relative path'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l checkpoint-every -d 'Bytes of files between two checkpoints for --resume [default: 16GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l digest -d 'Digest of the whole archive in the report' -r -f -a "xxh3\t'128 bits; detects damage; as xxhsum -H2 prints it'
blake3\t'256 bits; cannot be forged; as b3sum prints it'
none\t'No digest'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l expect-digest -d 'Expected digest of the archive, such as blake3:HEX; any other archive is refused' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l manifest -d 'Write the name, size and digest of every file to FILE, as lines of JSON; "-" is standard output' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l verify -d 'Checks of the snapshot\'s content' -r -f -a "none\t'No checks beyond the archive format'
structure\t'The bank file matches the archive\'s name, and every storage is a sequence of accounts'
accounts\t'The same, and all accounts add up to the hash in the archive\'s name'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l verify-memory -d 'With --verify accounts: memory for 16 bytes per record; the rest goes to an unnamed file beside the output [default: 1GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l preflight -d 'How to check that the archives fit, before anything is written' -r -f -a "auto\t'Estimate from samples; if they leave a doubt, add up the sizes declared in all frame headers'
exact\t'Add up the sizes declared in all frame headers, however long that takes'
off\t'No check, same as --no-preflight'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l preflight-time -d 'With --preflight auto: time limit for reading all frame headers, such as 30s [default: 2 s plus 1 s for each GB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l min-free -d 'Free space to leave to other programs on every file system that is written to: a size, a percentage, or both, of which the larger counts, such as 10GiB,2%; 0 for none' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l format -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l peer -d 'Server that redirects to its newest archives, such as a validator\'s RPC port; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l agree -d 'Number of hosts among the peers that must name the same slot and hash' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l tee -d 'Also keep the archive from the network in DIR, under its name' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l rate-limit -d 'Maximum write rate for each destination device, in bytes per second, such as 100MB; 0 for no limit' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l io-class -d 'I/O priority: idle (only when no other process uses the disk), best-effort, or best-effort:N with N from 0 (highest) to 7' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l nice -d 'Niceness of all threads, from 0 to 19; negative values down to -20 need a privilege' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l cpus -d 'Processors to run on, such as 0-3,8' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l dry-run -d 'Check the archive completely, and create nothing'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l resume -d 'Continue an interrupted run, and stay resumable'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l force -d 'Replace an existing manifest'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l no-preflight -d 'Skip the check, and unpack until a disk is full, or until less is free than --min-free says'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l no-index -d 'Ignore the archive\'s index, ARCHIVE.unsnap-index, and a seek table at its end'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l check-index -d 'Fail unless the archive has the digest that its index records'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand unpack" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l format -d 'Format of the list on standard output' -r -f -a "text\t'For people'
json\t'One array'
json-lines\t'One object a line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l no-index -d 'Ignore the archive\'s index, ARCHIVE.unsnap-index, and a seek table at its end'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l check-index -d 'Fail unless the archive has the digest that its index records'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand list" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l owners -d 'List the N programs that own the most data; reads the whole archive' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l format -d 'Format of the result on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l storages -d 'Examine all storages; reads the whole archive, unless it has an index'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l frames -d 'Examine all frames; a small read for each 128 KiB of decoded data, unless the archive has an index or a seek table; at an address, receives the whole archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l no-index -d 'Ignore the archive\'s index, ARCHIVE.unsnap-index, and a seek table at its end'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l check-index -d 'Fail unless the archive has the digest that its index records'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand inspect" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l entry -d 'Pattern of entries to extract: *, ?, sets in brackets, and ** for any directories' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l slot -d 'Slots whose storages to extract or, with --account, to search: N, MIN..MAX, MIN.. or ..MAX, ends included' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l account -d 'Account to print on standard output, in its newest version' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l incremental -d 'With --account: archive of an incremental snapshot that builds on this one' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -s o -l output -d 'Output directory: created if absent, otherwise empty; its parent must exist. "-" prints a single entry on standard output' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l format -d 'Format of accounts, and of the report about entries' -r -f -a "text\t'For people'
json\t'For programs; an account\'s data in hexadecimal'
raw\t'Only the data, of a single account'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l coalesce-gap -d 'Largest gap between two wanted frames to read through, which saves a read' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l layout -d 'Entries that the archive may contain' -r -f -a "snapshot\t'Only the entries of a validator\'s snapshot'
any\t'Files and directories under any safe relative path'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l no-index -d 'Ignore the archive\'s index, ARCHIVE.unsnap-index, and a seek table at its end'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l check-index -d 'Fail unless the archive has the digest that its index records'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand extract" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -s o -l output -d 'Directory for the index [default: that of the archive; for an address, the working directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l format -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand index" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l incremental -d 'Archive of an incremental snapshot that builds on it' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l verify -d 'Checks of the snapshot\'s content' -r -f -a "none\t'No checks beyond the archive format'
structure\t'The bank file matches the archive\'s name, and every storage is a sequence of accounts'
accounts\t'The same, and all accounts add up to the hash in the archive\'s name'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l verify-memory -d 'Memory for 16 bytes per record; the rest goes to an unnamed file in the directory for temporary files [default: 1GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l format -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand verify" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -s o -l output -d 'Existing directory, or the new archive\'s name in one (the old name, ending in .tar.zst)' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l frame-size -d 'Most decoded bytes in a frame, 4MiB to 32MiB [default: 16MiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l level -d 'zstd level' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l threads -d 'Compressing threads [default: number of cores, at most 64]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l layout -d 'Entries that the archive may contain' -r -f -a "snapshot\t'Only the entries of a validator\'s snapshot'
any\t'Files and directories under any safe relative path'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l format -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l checksums -d 'End every frame with a checksum of its content'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l seek-table -d 'Append a table of all frames (the zstd project\'s seekable format)'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l force -d 'Replace an existing archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand repack" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -s o -l output -d 'Existing directory, or the new archive\'s name in one (the name that the bank file gives)' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l accounts -d 'Directories with the storages, if not accounts/ of the tree; for a state, its accounts paths' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l base-slot -d 'Make an incremental archive that builds on the full snapshot of this slot' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l verify -d 'Checks of the new archive, before it gets its name' -r -f -a "none\t'No checks beyond the archive format'
structure\t'The bank file matches the archive\'s name, and every storage is a sequence of accounts'
accounts\t'The same, and all accounts add up to the hash in the archive\'s name'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l verify-memory -d 'With --verify accounts: memory for 16 bytes per record; more goes to an unnamed file in the directory for temporary files [default: 1GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l frame-size -d 'Most decoded bytes in a frame, 4MiB to 32MiB [default: 16MiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l level -d 'zstd level' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l threads -d 'Compressing threads [default: number of cores, at most 64]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l format -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l checksums -d 'End every frame with a checksum of its content'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l seek-table -d 'Append a table of all frames (the zstd project\'s seekable format)'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l force -d 'Replace an existing archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand create" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l before-incremental -d 'Incremental archive that builds on BEFORE; both together count as the earlier snapshot' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l after-incremental -d 'Incremental archive that builds on AFTER; both together count as the later snapshot' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l format -d 'Format of the differences on standard output' -r -f -a "text\t'Numbers, for people'
json\t'Numbers, as one object'
json-lines\t'Every difference, one object a line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l memory -d 'Memory for 80 bytes per record of all archives; the rest goes to an unnamed file in the directory for temporary files [default: 1GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l exit-code -d 'Exit with 0 if the snapshots are the same, 1 if they differ, 2 if the comparison failed'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand diff" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l owner -d 'Only records of this owner; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l data-size -d 'Only records with this many bytes of data: N, MIN..MAX, MIN.. or ..MAX, ends included' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l memcmp -d 'Only records whose data holds these bytes at an offset: OFFSET:BASE58 or OFFSET:0xHEX; if repeated, all must match' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l pubkeys -d 'Only records of the accounts in this file: one address a line, in base58' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l slot -d 'Only records in storages of these slots: N, FIRST..LAST, FIRST.. or ..LAST; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l incremental -d 'Incremental archive that builds on this one; list the records of both' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l limit -d 'List at most N records, and leave the rest of the archive unread and unchecked' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l format -d 'Format of the records on standard output' -r -f -a "text\t'A table for people'
csv\t'Comma-separated values, with a line of names'
json\t'One array'
json-lines\t'One object a line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l memory -d 'With --newest: memory for 80 bytes per record; the rest goes to an unnamed file in the directory for temporary files [default: 1GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l newest -d 'Only the newest record of each account, if it has lamports; reads the archive twice'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l with-data -d 'Include the data, in base64'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand accounts" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -s o -l output -d 'Directory to make: absent or empty; "-" is standard output, for --format arrow' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l format -d 'Format of the tables' -r -f -a "parquet\t'Apache Parquet'
arrow\t'A stream of Apache Arrow (IPC) of one table, with --output -'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l table -d 'Tables to write, separated by commas' -r -f -a "accounts\t'Every account, as its record has it'
token_accounts\t'What holders have of tokens'
mints\t'Tokens'
stakes\t'Stakes and their delegation'
votes\t'Validators\' vote accounts'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l incremental -d 'Incremental archive that builds on this one; export the records of both' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l owner -d 'Only records of this owner; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l data-size -d 'Only records with this many bytes of data: N, MIN..MAX, MIN.. or ..MAX, ends included' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l memcmp -d 'Only records whose data holds these bytes at an offset: OFFSET:BASE58 or OFFSET:0xHEX; if repeated, all must match' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l pubkeys -d 'Only records of the accounts in this file: one address a line, in base58' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l slot -d 'Only records in storages of these slots: N, FIRST..LAST, FIRST.. or ..LAST; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l keys -d 'Form of the keys' -r -f -a "binary\t'32 bytes: smaller, and faster to compare and to join'
base58\t'Text, for people'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l data-prefix -d 'Only the first bytes of each account\'s data' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l report -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l row-group-size -d 'Most bytes of rows in a row group, before encoding, if the memory suffices [default: 32MiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l file-size -d 'Size of a file before the next one begins [default: 512MiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l rows-memory -d 'Memory for rows that are not written yet [default: 512MiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l memory -d 'With --newest: memory for 80 bytes per record; the rest goes to an unnamed file in the directory for temporary files [default: 1GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l threads -d 'Threads that make rows, and as many that encode them [default: number of cores]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l newest -d 'Only the newest record of each account, if it has lamports; reads the archive twice'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l no-data -d 'Leave out the accounts\' data'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l provenance -d 'Add columns for the storage of each record and its offset there'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l check -d 'Read all files again before they get their names, and compare them with the accounts'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand export" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l archive -d 'Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or https://), whose accounts the tables must hold' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l incremental -d 'Incremental archive that builds on that one; the tables must hold the records of both' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l report -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l memory -d 'With --archive, if only the newest records were exported: memory for 80 bytes per record; the rest goes to an unnamed file in the directory for temporary files [default: 1GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l threads -d 'Threads that read files, each one row group at a time [default: number of cores]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand check-export" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l table -d 'Tables to search, separated by commas [default: all of the export]' -r -f -a "accounts\t'Every account, as its record has it'
token_accounts\t'What holders have of tokens'
mints\t'Tokens'
stakes\t'Stakes and their delegation'
votes\t'Validators\' vote accounts'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l format -d 'Format of the rows and of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l gap -d 'Read what is up to so many bytes apart at once [default: 48KiB of a file, 1MiB from a server]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l with-data -d 'Include the data, in base64'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand lookup" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and not __fish_seen_subcommand_from prepare status repair withdraw help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and not __fish_seen_subcommand_from prepare status repair withdraw help" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and not __fish_seen_subcommand_from prepare status repair withdraw help" -f -a "prepare" -d 'Make a state of the newest full archive and its newest incremental one'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and not __fish_seen_subcommand_from prepare status repair withdraw help" -f -a "status" -d 'Show the existing states, and whether they are whole'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and not __fish_seen_subcommand_from prepare status repair withdraw help" -f -a "repair" -d 'Restore the newest state from its shadow, or withdraw it'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and not __fish_seen_subcommand_from prepare status repair withdraw help" -f -a "withdraw" -d 'Remove all states and their shadows; leave storages to the validator'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and not __fish_seen_subcommand_from prepare status repair withdraw help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -s l -l ledger -d 'Ledger directory' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l from-unit -d 'Take the directories from the command line of a systemd unit\'s validator, such as sol.service' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l from-pid -d 'Take the directories from the command line of a running validator, or of a script\'s child' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l snapshots -d 'Directory of archives and states [default: the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l full-snapshot-archive-path -d 'Directory of full archives [default: the snapshots directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l incremental-snapshot-archive-path -d 'Directory of incremental archives [default: the snapshots directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l accounts -d 'Accounts paths, which share the storages [default: accounts in the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l verify -d 'Checks on the archives\' content during unpacking' -r -f -a "none\t'No checks beyond the archive format'
structure\t'The bank file matches the archive\'s name, and every storage is a sequence of accounts'
accounts\t'The same, and all accounts add up to the hash in the archive\'s name'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l verify-memory -d 'With --verify accounts: memory for the list of accounts, 16 bytes for each record; the rest goes to an unnamed file in the destination [default: 1GiB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l fastboot-format -d 'Format of the list of storages; auto is 3, which Agave 4.2 to 4.5 read' -r -f -a "auto\t'The format that most releases read'
3\t'3.0.0: Agave 4.2 to 4.5'
5\t'5.0.0: Agave 4.5 and later'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l preflight -d 'How to check that the archives fit, before anything is written' -r -f -a "auto\t'Estimate from samples; if they leave a doubt, add up the sizes declared in all frame headers'
exact\t'Add up the sizes declared in all frame headers, however long that takes'
off\t'No check, same as --no-preflight'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l preflight-time -d 'With --preflight auto: time limit for reading all frame headers, such as 30s [default: 2 s plus 1 s for each GB]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l min-free -d 'Free space to leave to other programs on every file system that is written to: a size, a percentage, or both, of which the larger counts, such as 10GiB,2%; 0 for none' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l archive -d 'Address of an archive that counts as if it were in the validator\'s directories; may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l format -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l peer -d 'Server that redirects to its newest archives, such as a validator\'s RPC port; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l agree -d 'Number of hosts among the peers that must name the same slot and hash' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l use-direct-io -d 'Bypass the page cache when reading the archive and writing large files' -r -f -a "auto\t'Where possible, except for parts of the archive that are already in the page cache'
on\t'Wherever it helps; fail if it is not possible'
off\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l io-engine -d 'I/O engine for reads and writes' -r -f -a "auto\t'io_uring if the kernel supports it, plain threads for small files'
uring\t'io_uring; fail if the kernel does not support it'
threads\t'Plain threads'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l decode-threads -d 'Number of decoding threads [default: number of cores, at most 16]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l decoder -d 'Decoder of zstd archives; `auto` means libzstd until the own decoder is proven' -r -f -a "auto\t'libzstd, until there is evidence enough for the own decoder'
own\t'The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot decode or that one thread decodes as a whole'
libzstd\t'libzstd, the zstd project\'s library'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l memory-budget -d 'Memory for read-ahead and decoded data, such as 512MiB [default: 128 MiB plus 64 MiB for each decoding thread]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l config -d 'File with limits on archives, like config/ledger-tool.toml; "" for none' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l rate-limit -d 'Maximum write rate for each destination device, in bytes per second, such as 100MB; 0 for no limit' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l io-class -d 'I/O priority: idle (only when no other process uses the disk), best-effort, or best-effort:N with N from 0 (highest) to 7' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l nice -d 'Niceness of all threads, from 0 to 19; negative values down to -20 need a privilege' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l cpus -d 'Processors to run on, such as 0-3,8' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l removal-files-per-second -d 'Maximum number of files of older states to remove per second while the new one is unpacked' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l no-preflight -d 'Skip the check, and unpack until a disk is full, or until less is free than --min-free says'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l replace -d 'Prepare the archives even if an existing state, in place or beside, is as new'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l beside -d 'Prepare a state beside those of a validator, which may be running'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l dry-run -d 'Only say what would be written, cleared and kept'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l no-shadow -d 'Do not keep hard links to the storages for repairs'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l hugetlb -d 'Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l no-sandbox -d 'Do not confine the process before it reads the archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from prepare" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -s l -l ledger -d 'Ledger directory' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l from-unit -d 'Take the directories from the command line of a systemd unit\'s validator, such as sol.service' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l from-pid -d 'Take the directories from the command line of a running validator, or of a script\'s child' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l snapshots -d 'Directory of archives and states [default: the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l full-snapshot-archive-path -d 'Directory of full archives [default: the snapshots directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l incremental-snapshot-archive-path -d 'Directory of incremental archives [default: the snapshots directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l accounts -d 'Accounts paths, which share the storages [default: accounts in the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l format -d 'Format of the result on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from status" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -s l -l ledger -d 'Ledger directory' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l from-unit -d 'Take the directories from the command line of a systemd unit\'s validator, such as sol.service' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l from-pid -d 'Take the directories from the command line of a running validator, or of a script\'s child' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l snapshots -d 'Directory of archives and states [default: the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l full-snapshot-archive-path -d 'Directory of full archives [default: the snapshots directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l incremental-snapshot-archive-path -d 'Directory of incremental archives [default: the snapshots directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l accounts -d 'Accounts paths, which share the storages [default: accounts in the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l format -d 'Format of the result on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from repair" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -s l -l ledger -d 'Ledger directory' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l from-unit -d 'Take the directories from the command line of a systemd unit\'s validator, such as sol.service' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l from-pid -d 'Take the directories from the command line of a running validator, or of a script\'s child' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l snapshots -d 'Directory of archives and states [default: the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l full-snapshot-archive-path -d 'Directory of full archives [default: the snapshots directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l incremental-snapshot-archive-path -d 'Directory of incremental archives [default: the snapshots directory]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l accounts -d 'Accounts paths, which share the storages [default: accounts in the ledger]' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l format -d 'Format of the result on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -l beside -d 'Withdraw only the state that was prepared with --beside; works while a validator is running'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from withdraw" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from help" -f -a "prepare" -d 'Make a state of the newest full archive and its newest incremental one'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show the existing states, and whether they are whole'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from help" -f -a "repair" -d 'Restore the newest state from its shadow, or withdraw it'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from help" -f -a "withdraw" -d 'Remove all states and their shadows; leave storages to the validator'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand fastboot; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "status" -d 'Show the state of the service and its targets'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "submit" -d 'Unpack an archive now, even one that the service would not choose'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "prepare" -d 'Unpack the newest archives now, without regard to the cadence'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "cancel" -d 'Stop a job, or remove it from the queue'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "pause" -d 'Suspend running jobs and start no others until `resume`'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "resume" -d 'Resume paused jobs'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "reload" -d 'Reload the service\'s configuration'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "watch" -d 'Show jobs and events until interrupted'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "metrics" -d 'Print metrics in Prometheus\' text format'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and not __fish_seen_subcommand_from status submit prepare cancel pause resume reload watch metrics help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from status" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from status" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from status" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from status" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from status" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from status" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from status" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -l incremental -d 'Incremental archive based on it' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -l target -d 'Target to unpack it for [default: all targets]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from submit" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -l wait -d 'Wait until the jobs have ended, and exit with their exit code'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from prepare" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from cancel" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from cancel" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from cancel" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from cancel" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from cancel" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from cancel" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from cancel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from cancel" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from pause" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from pause" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from pause" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from pause" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from pause" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from pause" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from pause" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from resume" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from resume" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from resume" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from resume" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from resume" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from resume" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from resume" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from reload" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from reload" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from reload" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from reload" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from reload" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from reload" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from reload" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from watch" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from watch" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from watch" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from watch" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from watch" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from watch" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from watch" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from metrics" -l socket -d 'Socket of the service' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from metrics" -l format -d 'Format of the answer on standard output' -r -f -a "text\t'For people'
json\t'For programs, indented; `watch` prints one line for each event'
json-lines\t'For programs, one object per line'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from metrics" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from metrics" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from metrics" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from metrics" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from metrics" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from metrics" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show the state of the service and its targets'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "submit" -d 'Unpack an archive now, even one that the service would not choose'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "prepare" -d 'Unpack the newest archives now, without regard to the cadence'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "cancel" -d 'Stop a job, or remove it from the queue'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "pause" -d 'Suspend running jobs and start no others until `resume`'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Resume paused jobs'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "reload" -d 'Reload the service\'s configuration'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "watch" -d 'Show jobs and events until interrupted'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "metrics" -d 'Print metrics in Prometheus\' text format'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l url -d 'Check only what the server of an archive can do; receives from it for 3 seconds' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l format -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l header -d 'Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l ca -d 'File of further trusted certificates (PEM); may be repeated' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l proxy -d 'Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l connections -d 'Number of connections, if the server answers ranges; Agave\'s own server does not' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l retry-for -d 'Longest time without a byte, after which nothing is tried again' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l expect-name -d 'Name that the archive must have, after all redirects; may be repeated' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -s o -l output -d 'Directory to measure; bench removes the files that it creates there' -r -f -a "(__fish_complete_directories)"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -l size -d 'Amount of data to unpack in each run: the size of the generated archive\'s files, or of the beginning of ARCHIVE' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -l rounds -d 'Number of times to measure everything' -r
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -l html -d 'Write a page with plots to this file' -r -F
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -l format -d 'Format of the report on standard output' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -l one-frame -d 'Generate an archive of one frame, as Agave up to 4.2 does, instead of frames of 32 MiB'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -s q -l quiet -d 'Hide progress and text reports, but print reports in other formats; twice: hide warnings too'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -s v -l verbose -d 'Log each step; twice: log details'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -l no-progress -d 'Hide progress'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand bench" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand completions" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "unpack" -d 'Unpack an archive into a durable directory'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "list" -d 'List an archive\'s entries'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "inspect" -d 'Show an archive\'s frames, producer and bank file'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "extract" -d 'Extract single entries or accounts from an archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "index" -d 'Write an index of an archive beside it'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "verify" -d 'Check that an archive holds what its name says'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "repack" -d 'Rewrite an archive in frames that several threads can unpack'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "create" -d 'Make an archive of a directory'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "diff" -d 'Compare the storages and accounts of two snapshots'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "accounts" -d 'List the accounts of an archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "export" -d 'Write the accounts of an archive as tables for databases and data frames'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "check-export" -d 'Check that an export is what its manifest and its archives say'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "lookup" -d 'Look up accounts in an export, in a directory or on a server'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "fastboot" -d 'Prepare and manage the state that a validator starts from without unpacking'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "service" -d 'Query and control the service unpackd'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "doctor" -d 'Check what makes unsnap slow or unsafe on this machine'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "bench" -d 'Measure what limits unpacking on this machine, and which flags make it faster'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions" -a "completions" -d 'Print the completion script for a shell'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from unpack" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from inspect" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from extract" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from index" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from verify" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from repack" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from diff" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from accounts" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from export" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from check-export" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from lookup" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from fastboot" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from fastboot" -f -a "prepare" -d 'Make a state of the newest full archive and its newest incremental one'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from fastboot" -f -a "status" -d 'Show the existing states, and whether they are whole'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from fastboot" -f -a "repair" -d 'Restore the newest state from its shadow, or withdraw it'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from fastboot" -f -a "withdraw" -d 'Remove all states and their shadows; leave storages to the validator'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "status" -d 'Show the state of the service and its targets'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "submit" -d 'Unpack an archive now, even one that the service would not choose'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "prepare" -d 'Unpack the newest archives now, without regard to the cadence'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "cancel" -d 'Stop a job, or remove it from the queue'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "pause" -d 'Suspend running jobs and start no others until `resume`'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "resume" -d 'Resume paused jobs'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "reload" -d 'Reload the service\'s configuration'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "watch" -d 'Show jobs and events until interrupted'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from service" -f -a "metrics" -d 'Print metrics in Prometheus\' text format'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from doctor" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from bench" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand man; and __fish_seen_subcommand_from completions" -s V -l version -d 'Print version'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "unpack" -d 'Unpack an archive into a durable directory'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "list" -d 'List an archive\'s entries'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "inspect" -d 'Show an archive\'s frames, producer and bank file'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "extract" -d 'Extract single entries or accounts from an archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "index" -d 'Write an index of an archive beside it'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "verify" -d 'Check that an archive holds what its name says'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "repack" -d 'Rewrite an archive in frames that several threads can unpack'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "create" -d 'Make an archive of a directory'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "diff" -d 'Compare the storages and accounts of two snapshots'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "accounts" -d 'List the accounts of an archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "export" -d 'Write the accounts of an archive as tables for databases and data frames'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "check-export" -d 'Check that an export is what its manifest and its archives say'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "lookup" -d 'Look up accounts in an export, in a directory or on a server'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "fastboot" -d 'Prepare and manage the state that a validator starts from without unpacking'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "service" -d 'Query and control the service unpackd'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "doctor" -d 'Check what makes unsnap slow or unsafe on this machine'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "bench" -d 'Measure what limits unpacking on this machine, and which flags make it faster'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "completions" -d 'Print the completion script for a shell'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "man" -d 'Print a manual page'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and not __fish_seen_subcommand_from unpack list inspect extract index verify repack create diff accounts export check-export lookup fastboot service doctor bench completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from fastboot" -f -a "prepare" -d 'Make a state of the newest full archive and its newest incremental one'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from fastboot" -f -a "status" -d 'Show the existing states, and whether they are whole'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from fastboot" -f -a "repair" -d 'Restore the newest state from its shadow, or withdraw it'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from fastboot" -f -a "withdraw" -d 'Remove all states and their shadows; leave storages to the validator'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "status" -d 'Show the state of the service and its targets'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "submit" -d 'Unpack an archive now, even one that the service would not choose'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "prepare" -d 'Unpack the newest archives now, without regard to the cadence'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "cancel" -d 'Stop a job, or remove it from the queue'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "pause" -d 'Suspend running jobs and start no others until `resume`'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "resume" -d 'Resume paused jobs'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "reload" -d 'Reload the service\'s configuration'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "watch" -d 'Show jobs and events until interrupted'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "metrics" -d 'Print metrics in Prometheus\' text format'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "unpack" -d 'Unpack an archive into a durable directory'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "list" -d 'List an archive\'s entries'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "inspect" -d 'Show an archive\'s frames, producer and bank file'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "extract" -d 'Extract single entries or accounts from an archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "index" -d 'Write an index of an archive beside it'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "verify" -d 'Check that an archive holds what its name says'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "repack" -d 'Rewrite an archive in frames that several threads can unpack'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "create" -d 'Make an archive of a directory'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "diff" -d 'Compare the storages and accounts of two snapshots'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "accounts" -d 'List the accounts of an archive'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "export" -d 'Write the accounts of an archive as tables for databases and data frames'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "check-export" -d 'Check that an export is what its manifest and its archives say'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "lookup" -d 'Look up accounts in an export, in a directory or on a server'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "fastboot" -d 'Prepare and manage the state that a validator starts from without unpacking'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "service" -d 'Query and control the service unpackd'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "doctor" -d 'Check what makes unsnap slow or unsafe on this machine'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "bench" -d 'Measure what limits unpacking on this machine, and which flags make it faster'
complete -c ledger-tool -n "__fish_ledger_tool_using_subcommand help; and __fish_seen_subcommand_from man" -f -a "completions" -d 'Print the completion script for a shell'
