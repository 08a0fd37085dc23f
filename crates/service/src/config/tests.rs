use super::*;

const SHORTEST: &str = r#"
    [archives]
    directory = "/a"
    [[target]]
    name = "t"
    directory = "/t"
"#;

fn load(text: &str) -> Result<Config, ConfigError> {
    Sources::default().load_text(text)
}

#[track_caller]
fn refused(text: &str, parts: &[&str]) {
    let ConfigError(reason) = load(text).unwrap_err();
    for part in parts {
        assert!(reason.contains(part), "no {part:?} in: {reason}");
    }
}

#[test]
fn the_shipped_file_has_every_key_and_its_default() {
    let text = include_str!("../../../../config/unpackd.toml");
    let shipped = load(text).unwrap().settings;
    let mut expected = load(SHORTEST).unwrap().settings;
    expected.archives.directory.clone_from(&shipped.archives.directory);
    expected.archives.incremental_directory.clone_from(&shipped.archives.directory);
    expected.target[0].name.clone_from(&shipped.target[0].name);
    expected.target[0].directory.clone_from(&shipped.target[0].directory);
    assert_eq!(shipped, expected);
    // Every key stands at the beginning of a line, or of a comment.
    let defaults = toml::Table::try_from(&expected).unwrap();
    let tables = defaults.iter().flat_map(|(section, value)| match value {
        toml::Value::Table(table) => vec![(section, table)],
        toml::Value::Array(array) => {
            array.iter().filter_map(|value| Some((section, value.as_table()?))).collect()
        }
        _ => panic!("{section}"),
    });
    for (section, table) in tables {
        for key in table.keys() {
            let written =
                |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} = "));
            assert!(text.lines().any(written), "{key} of {section} is not explained");
        }
    }
}

#[test]
fn what_is_printed_is_what_was_read() {
    let config = load(SHORTEST).unwrap();
    assert_eq!(load(&config.print()).unwrap(), config);
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    refused("[archives]\nrescann = 3", &["unknown key rescann", "mean rescan?"]);
    refused("[archive]\nrescan = 3", &["unknown table [archive]", "mean archives?"]);
    refused("[[target]]\nledgr = '/x'", &["unknown key ledgr in [target]", "mean ledger?"]);
    refused("[limits]\nwindow_bytes = 3", &["mean window_bytes_max?"]);
    refused("[archives]\nqqqq = 3", &["unknown key qqqq in [archives]"]);
    assert!(!load("[archives]\nqqqq = 3").unwrap_err().0.contains("mean"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    refused("", &["directory of [archives] is missing"]);
    refused("[archives]\ndirectory = 'a'", &["absolute"]);
    refused("[archives]\ndirectory = '/a'", &["no [[target]] is configured"]);
    refused(&format!("{SHORTEST}\nkeep = 0"), &["keep must be 1 to"]);
    refused(&format!("{SHORTEST}\nledger = '/l'"), &["fastboot"]);
    refused(&format!("{SHORTEST}\n[[target]]\nname='t'\ndirectory='/u'"), &["two targets"]);
    refused(
        &format!("{SHORTEST}\n[[target]]\nname='u'\ndirectory='/t'"),
        &["targets must not share"],
    );
    refused(&format!("{SHORTEST}\n[[target]]\nname='../u'\ndirectory='/u'"), &["letters"]);
    for (section, line, part) in [
        ("unpack", "verify = 'all'", "none, structure or accounts"),
        ("unpack", "memory-budget = 'much'", "not a size"),
        ("neighbour", "io-class = 'realtime'", "idle or best-effort"),
        ("neighbour", "cpus = '3-'", "list of processors"),
        ("retry", "first = '2h'", "not more than most"),
        ("metrics", "listen = '0.0.0.0:9184'", "loopback"),
        ("service", "queue = 0", "1 to 256"),
        ("control", "connections-max = 0", "at least 1"),
    ] {
        refused(&format!("{SHORTEST}\n[{section}]\n{line}"), &[part]);
    }
}

#[test]
fn later_layers_go_over_earlier_ones() {
    let text = format!("{SHORTEST}\n[neighbour]\nrate-limit = '1MB'\nnice = 3");
    let environment = vec![
        ("UNPACKD_NEIGHBOUR_RATE_LIMIT".to_owned(), "2MB".to_owned()),
        ("UNPACKD_ARCHIVES_RESCAN".to_owned(), "5s".to_owned()),
        ("UNPACKD_CONTROL_OBSERVE_USERS".to_owned(), "alice, bob".to_owned()),
        ("UNPACKD_SERVICE_SUPERSEDE".to_owned(), "false".to_owned()),
        ("UNPACKD_LIMITS_FRAMES_MAX".to_owned(), "7".to_owned()),
        ("STATE_DIRECTORY".to_owned(), "/s:/other".to_owned()),
        ("PATH".to_owned(), "/bin".to_owned()),
    ];
    let flags = vec![Override { section: "archives", key: "rescan", value: "6s".to_owned() }];
    let mut sources = Sources { environment, flags, ..Sources::default() };
    let config = sources.load_text(&text).unwrap();
    let settings = &config.settings;
    assert_eq!(settings.neighbour.rate_limit.0, 2_000_000);
    assert_eq!(settings.neighbour.nice, 3);
    assert_eq!(settings.archives.rescan, Span::seconds(6));
    assert_eq!(settings.control.observe_users, ["alice", "bob"]);
    assert!(!settings.service.supersede);
    assert_eq!(settings.service.state_directory, Path::new("/s"));
    assert_eq!(settings.control.socket, Path::new("/run/unpackd/control.sock"));
    assert_eq!(config.unpacking().unwrap().pass.limits.decode.frames_max, 7);

    sources.environment = vec![("UNPACKD_NEIGHBOUR_RATELIMIT".to_owned(), "1".to_owned())];
    let ConfigError(reason) = sources.load_text(&text).unwrap_err();
    assert!(reason.contains("mean UNPACKD_NEIGHBOUR_RATE_LIMIT?"), "{reason}");
    sources.environment = vec![("UNPACKD_SERVICE_SUPERSEDE".to_owned(), "maybe".to_owned())];
    assert!(sources.load_text(&text).unwrap_err().0.contains("true or false"));
}

#[test]
fn every_shipped_profile_is_right() {
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/profiles");
    let mut count = 0;
    for entry in std::fs::read_dir(profiles).unwrap() {
        let path = entry.unwrap().path();
        let config = load(&std::fs::read_to_string(&path).unwrap());
        assert!(config.is_ok(), "{}: {config:?}", path.display());
        count += 1;
    }
    assert_eq!(count, 3);
}
