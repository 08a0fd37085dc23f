complete -c unpackd -l config -d 'The configuration [default: $CONFIGURATION_DIRECTORY/unpackd.toml, or /etc/unsnap/unpackd.toml]' -r -F
complete -c unpackd -l archives -d 'Where archives appear [archives.directory]' -r -f -a "(__fish_complete_directories)"
complete -c unpackd -l rescan -d 'Between two looks at the directories, such as 60s [archives.rescan]' -r
complete -c unpackd -l rate-limit -d 'Bytes written to each device in a second [neighbour.rate-limit]' -r
complete -c unpackd -l state-directory -d 'What is remembered across restarts [service.state-directory]' -r -f -a "(__fish_complete_directories)"
complete -c unpackd -l socket -d 'The Unix socket [control.socket]' -r
complete -c unpackd -l log-format -d 'Where the log goes' -r -f -a "auto\t'The journal if it reads standard error, else text'
journal\t'Entries with fields, in the journal'
text\t'Lines on standard error'"
complete -c unpackd -l check-config -d 'Say whether the configuration is right, and end'
complete -c unpackd -l print-config -d 'Show the configuration that is in force, all layers merged, and end'
complete -c unpackd -s v -l verbose -d 'Log in more detail; given twice, in most'
complete -c unpackd -s h -l help -d 'Print help (see more with \'--help\')'
complete -c unpackd -s V -l version -d 'Print version'
