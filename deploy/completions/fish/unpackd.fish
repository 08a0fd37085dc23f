complete -c unpackd -l config -d 'Configuration file [default: $CONFIGURATION_DIRECTORY/unpackd.toml or /etc/unsnap/unpackd.toml]' -r -F
complete -c unpackd -l archives -d 'Directory to watch for archives [archives.directory]' -r -f -a "(__fish_complete_directories)"
complete -c unpackd -l rescan -d 'Interval between scans of the directories, such as 60s [archives.rescan]' -r
complete -c unpackd -l rate-limit -d 'Most bytes written to each device per second [neighbour.rate-limit]' -r
complete -c unpackd -l state-directory -d 'Directory for state that survives restarts [service.state-directory]' -r -f -a "(__fish_complete_directories)"
complete -c unpackd -l socket -d 'Unix socket for clients [control.socket]' -r
complete -c unpackd -l log-format -d 'Destination of the log' -r -f -a "auto\t'The journal if standard error is connected to it, else text'
journal\t'Entries with fields in systemd\'s journal'
text\t'Lines of text on standard error'"
complete -c unpackd -l check-config -d 'Check the configuration, and whether its directories and processors exist, and exit'
complete -c unpackd -l print-config -d 'Print the merged configuration (defaults, file, environment and flags) and exit'
complete -c unpackd -s v -l verbose -d 'Log more (-v: debug, -vv: trace)'
complete -c unpackd -s h -l help -d 'Print help (see more with \'--help\')'
complete -c unpackd -s V -l version -d 'Print version'
