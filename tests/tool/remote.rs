//! Archives from a server, as a user gives them.

use std::{fs, path::Path, process::Command};

use unsnap_test_support::{Outcome, Site, genuine_full, ledger_tool, run};
use unsnap_testkit::{
    proxy::Proxy,
    server::{Fault, Personality, Script, Server},
    tree::read_tree,
};

fn name() -> String {
    genuine_full().file_name().unwrap().to_str().unwrap().to_owned()
}

fn server(personality: Personality, script: Script) -> Server {
    Server::start(&name(), fs::read(genuine_full()).unwrap(), personality, script)
}

fn all_is_well() -> Script {
    Box::new(|_, _| None)
}

fn unpack(url: &str, output: &Path) -> Command {
    let mut command = ledger_tool();
    command.arg("unpack").arg(url).arg("--output").arg(output);
    command
}

fn assert_unpacked(outcome: Outcome, output: &Path) {
    outcome.assert_code(0);
    let site = Site::new();
    let expected = site.place().join("expected");
    let mut local = ledger_tool();
    local.arg("unpack").arg(genuine_full()).arg("--output").arg(&expected);
    run(&mut local).assert_code(0);
    assert!(read_tree(output).unwrap() == read_tree(&expected).unwrap());
}

#[test]
fn a_validators_newest_archive_is_unpacked_while_it_comes() {
    for personality in [Personality::agave(), Personality::firedancer(), Personality::nginx()] {
        let site = Site::new();
        let output = site.place().join("output");
        let server = server(personality, all_is_well());
        let mut command = unpack(&server.url("/snapshot.tar.bz2"), &output);
        let outcome = run(command.args(["--verify", "accounts", "--format", "json"]));
        let report = outcome.assert_code(0).json();
        // The redirect gave it its name, against which the bank file and the accounts were held.
        assert_eq!(report["slot"], 39);
        assert!(report["accounts"].is_object(), "{report}");
        assert!(report["archive"].as_str().unwrap().ends_with(&name()));
        assert_eq!(report["bytes_read"], fs::metadata(genuine_full()).unwrap().len());
        let outcome =
            run(&mut unpack(&server.url(&format!("/{}", name())), &site.place().join("2")));
        assert_unpacked(outcome, &site.place().join("2"));
    }
}

#[test]
fn a_connection_that_breaks_again_and_again_costs_no_byte() {
    for personality in [Personality::agave(), Personality::nginx()] {
        let site = Site::new();
        let output = site.place().join("output");
        let script: Script = Box::new(|number, _| match number {
            0 | 9.. => None,
            1 | 4 => Some(Fault::Close),
            2 => Some(Fault::Status("503 Slow Down")),
            _ => Some(Fault::Cut(150_000 * number as u64)),
        });
        let server = server(personality, script);
        let outcome = run(&mut unpack(&server.url(&format!("/{}", name())), &output));
        assert_unpacked(outcome, &output);
    }
}

#[test]
fn an_archive_that_is_exchanged_on_the_server_leaves_nothing() {
    let site = Site::new();
    let script: Script = Box::new(|number, _| (number > 0).then_some(Fault::OtherTag));
    let server = server(Personality::nginx(), script);
    let mut command = unpack(&server.url(&format!("/{}", name())), &site.place().join("output"));
    let outcome = run(&mut command);
    let stderr = &outcome.assert_code(1).stderr;
    assert!(stderr.contains("[archive-changing]") && stderr.contains("its tag was"), "{stderr}");
    assert_eq!(fs::read_dir(site.place()).unwrap().count(), 1, "only the neighbour");
}

#[test]
fn an_archive_that_is_cut_on_the_server_is_bad() {
    let site = Site::new();
    let mut bytes = fs::read(genuine_full()).unwrap();
    bytes.truncate(bytes.len() - 1000);
    let server = Server::start(&name(), bytes, Personality::agave(), all_is_well());
    let mut command = unpack(&server.url("/snapshot.tar.bz2"), &site.place().join("output"));
    let stderr = run(&mut command).assert_code(1).stderr;
    assert!(stderr.contains("[archive-cut]"), "{stderr}");
}

#[test]
fn mistakes_are_told_before_anything_is_made() {
    let site = Site::new();
    let server = server(Personality::agave(), all_is_well());
    let output = site.place().join("output");
    let closed = Server::start("x", vec![1], Personality::agave(), all_is_well()).url("/x");
    let scheme = "http://user:word@127.0.0.1/x".to_owned();
    for (url, code, words) in [
        (server.url("/other.tar.zst"), 3, ["404 Not Found", "/snapshot.tar.bz2"]),
        (closed, 3, ["cannot connect", "refused"]),
        (scheme, 2, ["password", "header"]),
    ] {
        let stderr = run(&mut unpack(&url, &output)).assert_code(code).stderr;
        for word in words {
            assert!(stderr.contains(word), "{url}: {stderr}");
        }
        assert_eq!(fs::read_dir(site.place()).unwrap().count(), 1, "only the neighbour");
    }
    let mut command = ledger_tool();
    command.arg("verify").arg(server.url("/snapshot.tar.bz2"));
    let stderr = run(&mut command).assert_code(2).stderr;
    assert!(stderr.contains("cannot be verified without unpacking"), "{stderr}");
}

#[test]
fn what_only_reads_takes_addresses_too() {
    let server = server(Personality::nginx(), all_is_well());
    let url = server.url("/snapshot.tar.bz2");
    for words in [
        &["list"][..],
        &["accounts", "--limit", "3"],
        &["verify", "--verify", "structure"],
        &["extract", "--account", "SysvarC1ock11111111111111111111111111111111"],
    ] {
        let told = |archive: &str| {
            let mut command = ledger_tool();
            command.args(words).arg(archive).args(["--quiet"]);
            run(&mut command).assert_code(0).stdout
        };
        assert_eq!(told(&url), told(genuine_full().to_str().unwrap()), "{words:?}");
    }
}

#[test]
fn an_index_is_made_while_the_archive_comes_once() {
    let site = Site::new();
    for personality in [Personality::agave(), Personality::nginx()] {
        let server = server(personality, all_is_well());
        let of = |archive: &str, directory: &Path| {
            let mut command = ledger_tool();
            command.arg("index").arg(archive).arg("--output").arg(directory);
            run(command.args(["--format", "json"])).assert_code(0).json()
        };
        let [far, near] = ["far", "near"].map(|name| site.place().join(name));
        for directory in [&far, &near] {
            fs::create_dir(directory).unwrap();
        }
        let remote = of(&server.url("/snapshot.tar.bz2"), &far);
        let local = of(genuine_full().to_str().unwrap(), &near);
        assert_eq!(remote["digest"], local["digest"]);
        let index = |directory: &Path| {
            let mut names = fs::read_dir(directory).unwrap();
            let path = names.next().unwrap().unwrap().path();
            assert!(names.next().is_none(), "one file");
            (path.file_name().unwrap().to_owned(), fs::read(path).unwrap())
        };
        assert!(index(&far) == index(&near), "the same index, also what it recognises it by");
        // From the first byte to the last, once.
        let received: u64 = server
            .asked()
            .iter()
            .skip(1)
            .filter_map(|asked| asked.range)
            .map(|(first, last)| last.map_or(0, |last| last - first + 1))
            .sum();
        assert!(received <= fs::metadata(genuine_full()).unwrap().len(), "{received}");
        for directory in [far, near] {
            fs::remove_dir_all(directory).unwrap();
        }
    }
    let mut command = ledger_tool();
    command.current_dir(site.place()).arg("index");
    let server = server(Personality::nginx(), all_is_well());
    run(command.arg(server.url("/snapshot.tar.bz2"))).assert_code(0);
    assert!(site.place().join(format!("{}.unsnap-index", name())).exists());
}

#[test]
fn an_archive_is_inspected_at_its_address() {
    let inspected = |archive: &str, words: &[&str]| {
        let mut command = ledger_tool();
        command.arg("inspect").arg(archive).args(["--format", "json"]).args(words);
        let mut found = run(&mut command).assert_code(0).json();
        for differs in ["archive", "elapsed_ms"] {
            found.as_object_mut().unwrap().remove(differs);
        }
        found
    };
    for personality in [Personality::agave(), Personality::nginx()] {
        let server = server(personality, all_is_well());
        let url = server.url("/snapshot.tar.bz2");
        let words = ["--frames", "--storages", "--owners", "3"];
        let (mut remote, mut local) =
            (inspected(&url, &words), inspected(genuine_full().to_str().unwrap(), &words));
        assert_eq!(remote["frames"]["source"], "pass");
        for found in [&mut remote, &mut local] {
            found.as_object_mut().unwrap().remove("frames");
        }
        assert_eq!(remote, local);
        let quick = inspected(&url, &[]);
        assert_eq!(quick["bank"], local["bank"]);
        assert_eq!(quick["archive_bytes"], fs::metadata(genuine_full()).unwrap().len());
        assert_eq!(quick["frames"]["complete"], false);
    }
}

#[test]
fn only_an_archive_of_an_expected_name_is_received() {
    let site = Site::new();
    let server = server(Personality::agave(), all_is_well());
    let url = server.url("/snapshot.tar.bz2");
    let other = name().replace("snapshot-39", "snapshot-40");
    let mut command = unpack(&url, &site.place().join("output"));
    let outcome = run(command.args(["--expect-name", &other]));
    outcome.assert_code(1).assert_error(&["[wrong-archive]", &other, &name()]);
    assert_eq!(server.asked().len(), 1, "only for its name");
    assert!(!site.place().join("output").exists());
    let mut command = unpack(&url, &site.place().join("output"));
    let outcome = run(command.args(["--expect-name", &other, "--expect-name", &name()]));
    assert_unpacked(outcome, &site.place().join("output"));
}

#[test]
fn the_environments_proxies_are_used_and_can_be_left_out() {
    let server = server(Personality::nginx(), all_is_well());
    let url = server.url("/snapshot.tar.bz2");
    let list = |variables: &[(&str, &str)], words: &[&str]| {
        let mut command = ledger_tool();
        command.arg("inspect").arg(&url).args(words).envs(variables.iter().copied());
        run(&mut command)
    };
    let proxy = Proxy::start(None);
    let address = format!("http://me:secret@{}", proxy.address());
    list(&[("http_proxy", &address)], &[]).assert_code(0);
    let used = proxy.heads().len();
    assert!(used >= 2, "for the redirect, and for the archive");
    for (variables, words) in [
        (&[("http_proxy", &*address), ("no_proxy", "127.0.0.0/8")][..], &[][..]),
        (&[("http_proxy", &*address)], &["--proxy", "none"]),
        (&[("https_proxy", &*address)], &[]),
    ] {
        list(variables, words).assert_code(0);
        assert_eq!(proxy.heads().len(), used, "{variables:?} {words:?}");
    }
    list(&[], &["--proxy", &proxy.address().to_string()]).assert_code(0);
    assert!(proxy.heads().len() > used);
    let outcome = list(&[("all_proxy", "socks5://me:secret@127.0.0.1")], &[]).assert_code(2);
    outcome.assert_error(&["proxy", "http://"]);
    drop(proxy);
    let outcome = list(&[("http_proxy", &address)], &[]).assert_code(3);
    assert!(!outcome.stderr.contains("secret"), "{}", outcome.stderr);
}
