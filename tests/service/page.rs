//! The status page, as a browser shows it.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use unsnap_test_support::{
    daemon::{Daemon, full},
    skip,
};

use crate::metrics::address;

/// All that is longer is a hang.
const HANG: Duration = Duration::from_mins(2);

/// Asks as a browser does. Returns the head and the body.
fn fetch(address: SocketAddr) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Runs a headless browser with a profile of its own. `None` if there is none.
fn browse(profile: &Path, arguments: &[&str], url: &str) -> Option<Output> {
    let mut browser = Command::new("timeout");
    browser
        .args([
            "120",
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        .args([
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--window-size=1000,900",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(url)
        .env("HOME", profile);
    let is_installed = Command::new("chromium").arg("--version").output().is_ok();
    if !is_installed {
        skip("chromium is not installed");
        return None;
    }
    Some(browser.output().unwrap())
}

#[test]
fn a_browser_shows_what_is_ready_and_what_is_bad() {
    let mut daemon = Daemon::new();
    let tree = daemon.tree_target("tree", "trees", 1);
    daemon.configure(&[&*tree, "[metrics]\nlisten = \"127.0.0.1:0\"\n"].concat());
    daemon.start();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    // Newer, but cut: it stays bad, and the older tree stays ready.
    let newer = daemon.make(&full(1_000_100, 2));
    let bytes = fs::read(&newer).unwrap();
    fs::write(&newer, &bytes[..bytes.len() / 2]).unwrap();
    daemon.drop_in(&newer);
    daemon.until("the archive is known to be bad", |daemon| {
        !daemon.status()["bad"].as_array().unwrap().is_empty()
    });
    let address = address(&daemon).unwrap();
    let (head, body) = fetch(address);
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("default-src 'none'"), "{head}");
    assert!(body.contains("Bad archives"), "{body}");
    // What takes space on the disk.
    assert!(body.contains("kept there") && body.contains("tree: trees, "), "{body}");

    let url = format!("http://{address}/");
    let profile = daemon.path("browser");
    fs::create_dir(&profile).unwrap();
    let Some(shown) = browse(&profile, &["--dump-dom"], &url) else { return };
    let dom = String::from_utf8_lossy(&shown.stdout);
    for text in [
        "Target tree",
        "1000000",
        "up to date",
        "Bad archives",
        "tree: trees, ",
        "bad-archive after",
    ] {
        assert!(dom.contains(text), "{text}: {shown:?}");
    }
    let picture = profile.join("page.png");
    let screenshot = format!("--screenshot={}", picture.display());
    let shown = browse(&profile, &[&screenshot], &url).unwrap();
    let picture = fs::read(&picture).unwrap_or_else(|error| panic!("{error}: {shown:?}"));
    assert!(picture.starts_with(b"\x89PNG"), "{shown:?}");
}
