//! Who makes the directory of a result. The rule is the same for all commands: a directory that is
//! the result is made, and a directory that holds the result must exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use unsnap_test_support::{Outcome, Site, genuine_full, ledger_tool, run};

use crate::programs::{commands, help, options};

/// What a command does with a directory that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absent {
    /// The directory is the result: the command makes it, but not its parent.
    IsMade,
    /// The directory holds the result: the command refuses, and says how to make it.
    IsRefused,
}

/// Every option that names a result. In the words, {absent} is the directory in question.
const CASES: [(&str, Absent); 13] = [
    ("unpack {archive} --output {absent}", Absent::IsMade),
    ("unpack {archive} --output {place}/tree --accounts {absent}", Absent::IsMade),
    ("unpack {archive} --output {place}/tree --manifest {absent}/files", Absent::IsRefused),
    ("extract {archive} --entry version --output {absent}", Absent::IsMade),
    ("export {archive} --output {absent}", Absent::IsMade),
    ("index {archive} --output {absent}", Absent::IsRefused),
    ("repack {archive} --output {absent}", Absent::IsRefused),
    ("repack {archive} --output {absent}/{name}", Absent::IsRefused),
    ("create {tree} --output {absent}", Absent::IsRefused),
    ("create {tree} --output {absent}/{name}", Absent::IsRefused),
    ("fastboot prepare --ledger {ledger} --accounts {absent}", Absent::IsMade),
    ("bench --output {absent}", Absent::IsRefused),
    ("bench --output {place} --html {absent}/page.html", Absent::IsRefused),
];

/// What the commands work on, outside of the place for results.
struct Ground {
    site: Site,
    archive: PathBuf,
    tree: PathBuf,
    ledger: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let site = Site::new();
        let archive = genuine_full();
        let (tree, ledger) = (site.path("tree"), site.path("ledger"));
        fs::create_dir(&ledger).unwrap();
        fs::copy(&archive, ledger.join(archive.file_name().unwrap())).unwrap();
        let mut unpack = ledger_tool();
        unpack.args(["unpack", "--quiet"]).arg(&archive).arg("--output").arg(&tree);
        run(&mut unpack).assert_code(0);
        Self { site, archive, tree, ledger }
    }

    fn run(&self, words: &str, absent: &Path) -> Outcome {
        let place = self.site.place();
        let name = Path::new(self.archive.file_name().unwrap());
        let mut command = ledger_tool();
        for word in words.split(' ') {
            let mut word = word.to_owned();
            for (variable, path) in [
                ("{archive}", &*self.archive),
                ("{tree}", &self.tree),
                ("{ledger}", &self.ledger),
                ("{place}", &place),
                ("{name}", name),
                ("{absent}", absent),
            ] {
                word = word.replace(variable, path.to_str().unwrap());
            }
            command.arg(word);
        }
        run(command.args(["--quiet", "--no-progress"]))
    }
}

#[test]
fn a_directory_that_is_the_result_is_made_and_one_that_holds_it_is_not() {
    for (words, absent) in CASES {
        let ground = Ground::new();
        let before = ground.site.state();
        let directory = ground.site.place().join("absent");
        // What must exist.
        let path = match absent {
            Absent::IsMade => directory.join("inner"),
            Absent::IsRefused => directory.clone(),
        };
        let advice = format!("hint: make it first: mkdir -p {}", directory.display());
        let reason = format!("directory {} does not exist", directory.display());
        let outcome = ground.run(words, &path).assert_code(2);
        let outcome = outcome.assert_error(&[&reason, "[request]", &advice]);
        assert_eq!(outcome.stderr.lines().count(), 2, "{words}: {outcome:?}");
        ground.site.assert_untouched(&before, words);

        fs::create_dir(&directory).unwrap();
        if words.starts_with("bench") {
            continue; // The tests of bench show what it does then.
        }
        ground.run(words, &path).assert_code(0);
        assert!(fs::read_dir(&path).unwrap().next().is_some(), "{words}");
    }
}

#[test]
fn every_command_with_an_output_is_in_the_table() {
    let tried: BTreeSet<&str> =
        CASES.iter().map(|(words, _)| words.split(' ').next().unwrap()).collect();
    for words in commands("ledger-tool") {
        let options = options(&help(&words).stdout);
        if ["--output", "--html", "--manifest"].iter().any(|name| options.contains(&(*name).into()))
        {
            assert!(tried.contains(words[1].as_str()), "{words:?}");
        }
    }
}
