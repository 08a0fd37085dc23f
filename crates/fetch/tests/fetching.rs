//! Archives from a server that does what servers do.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::{
    collections::VecDeque,
    io::Write,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use base64::Engine;
use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};
use unsnap_arena::{Arena, Pool};
use unsnap_failure::{Code, Failure, Family};
use unsnap_fetch::{
    Address, Contest, Entrant, FetchError, FetchOptions, Patience, Proxies, Proxy, Raced, Remote,
};
use unsnap_source::{Source, SourceError, Span};
use unsnap_testkit::{
    proxy,
    server::{Connection, Fault, Personality, Script, Server},
};

const NAME: &str = "snapshot-39-HwfKuUWRB5TgYYvoQHZQnnSf4FWMTmAW2Rx5zLyKPwyH.tar.zst";

/// Bytes that come when an archive is opened.
const HEAD: usize = 64 << 10;

fn file(bytes: usize) -> Vec<u8> {
    (0_u32..).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).take(bytes).collect()
}

fn pool(bytes: usize) -> Pool {
    Arena::builder().bytes(bytes).populate(false).build().unwrap().pool(bytes).unwrap()
}

fn never() -> Script {
    Box::new(|_, _| None)
}

/// A fault of the request of a number.
fn at(number: usize, fault: Fault) -> Script {
    Box::new(move |asked, _| (asked == number).then(|| fault.clone()))
}

/// Faults of the first requests behind the one that opens.
fn script(faults: Vec<Fault>) -> Script {
    let faults = Mutex::new(VecDeque::from(faults));
    Box::new(move |number, _| if number == 0 { None } else { faults.lock().unwrap().pop_front() })
}

fn impatient() -> FetchOptions {
    let patience = Patience {
        connect: Duration::from_secs(20),
        head: Duration::from_secs(20),
        silence: Duration::from_millis(300),
        judged_after: Duration::from_mins(2),
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(5),
        // For a machine that is busy with other work.
        give_up: Duration::from_mins(2),
        ..Patience::default()
    };
    FetchOptions { patience, ..FetchOptions::default() }
}

fn open(server: &Server, options: &FetchOptions) -> Result<Remote, FetchError> {
    let address = Address::parse(&server.url(&format!("/{NAME}"))).unwrap();
    Remote::open(&address, options, &|| false)
}

/// Reads everything, and holds on to the spans of half of the pool, as a decoder does.
fn read(mut source: impl Source, pool: &Pool) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    let mut held: VecDeque<Span> = VecDeque::new();
    while let Some(span) = source.next_span()? {
        assert_eq!(span.offset, bytes.len() as u64);
        bytes.extend_from_slice(&span.bytes);
        held.push_back(span);
        while held.iter().map(|span| span.bytes.len()).sum::<usize>() > pool.bytes() / 2 {
            held.pop_front();
        }
    }
    assert!(source.next_span()?.is_none());
    Ok(bytes)
}

fn fetch(server: &Server, options: &FetchOptions) -> Result<Vec<u8>, SourceError> {
    let remote = open(server, options).map_err(|error| SourceError::Remote(Box::new(error)))?;
    let pool = pool(256 << 10);
    read(remote.read(pool.clone()), &pool)
}

#[test]
fn ranges_arrive_over_several_connections_and_each_byte_is_asked_for_once() {
    let bytes = file(3_000_001);
    for personality in [Personality::nginx(), Personality::firedancer()] {
        let server = Server::start(NAME, bytes.clone(), personality, never());
        let address = Address::parse(&server.url("/snapshot.tar.bz2")).unwrap();
        let remote = Remote::open(&address, &impatient(), &|| false).unwrap();
        assert!(remote.has_ranges());
        assert_eq!(remote.bytes(), 3_000_001);
        assert_eq!(remote.head(), &bytes[..HEAD]);
        assert_eq!(remote.address().file_name(), NAME);
        let pool = pool(256 << 10);
        assert!(read(remote.read(pool.clone()), &pool).unwrap() == bytes);
        let mut ranges: Vec<_> = server.asked().iter().filter_map(|asked| asked.range).collect();
        ranges.sort_unstable();
        let mut next = 0;
        for (first, last) in ranges {
            assert_eq!(first, next);
            next = last.unwrap() + 1;
        }
        assert_eq!(next, 3_000_001);
    }
}

#[test]
fn a_server_without_ranges_is_asked_once_and_for_everything() {
    let bytes = file(1_000_003);
    let server = Server::start(NAME, bytes.clone(), Personality::agave(), never());
    let remote = open(&server, &impatient()).unwrap();
    assert!(!remote.has_ranges());
    let pool = pool(256 << 10);
    assert!(read(remote.read(pool.clone()), &pool).unwrap() == bytes);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn small_archives_come_with_the_answer_of_the_opening() {
    for personality in [Personality::agave(), Personality::nginx()] {
        for length in [1, 100, HEAD - 1, HEAD, HEAD + 1] {
            let server = Server::start(NAME, file(length), personality.clone(), never());
            assert!(fetch(&server, &impatient()).unwrap() == file(length), "{length}");
        }
        let server = Server::start(NAME, Vec::new(), personality, never());
        assert!(fetch(&server, &impatient()).is_err());
    }
}

#[test]
fn a_connection_that_breaks_at_any_byte_is_made_again() {
    let bytes = file(HEAD + 5000);
    for personality in [Personality::agave(), Personality::nginx()] {
        let is_whole = !personality.ranges;
        for cut in (0..=5000).step_by(if is_whole { 97 } else { 53 }) {
            // The whole file comes with the first answer, a range with the second.
            let cut = if is_whole { HEAD as u64 + cut } else { cut };
            let script = at(usize::from(!is_whole), Fault::Cut(cut));
            let server = Server::start(NAME, bytes.clone(), personality.clone(), script);
            assert!(fetch(&server, &impatient()).unwrap() == bytes, "{cut}");
            let asked = server.asked();
            if is_whole {
                assert_eq!(asked.len(), 1 + usize::from(cut < bytes.len() as u64), "{cut}");
            } else if let Some(again) = asked.get(2) {
                assert_eq!(again.range.unwrap().0, HEAD as u64 + cut);
                assert!(again.headers.contains("if-match: \"5f-1a\""), "{again:?}");
            }
        }
    }
}

#[test]
fn faults_cost_time_and_no_byte() {
    let bytes = file(700_000);
    let faults = || {
        vec![
            Fault::Close,
            Fault::Cut(0),
            Fault::Stall(1),
            Fault::Stall(10_000),
            Fault::Status("503 Slow Down"),
            Fault::Status("429 Too Many Requests"),
            Fault::Status("500 Internal Server Error"),
            Fault::Short(1),
            Fault::Cut(1),
        ]
    };
    for personality in [
        Personality::nginx(),
        Personality::firedancer(),
        Personality { closes: true, ..Personality::nginx() },
    ] {
        let server = Server::start(NAME, bytes.clone(), personality, script(faults()));
        assert!(fetch(&server, &impatient()).unwrap() == bytes);
        assert!(server.asked().len() > 9);
    }
    // Here the first answer is the one that breaks, and a shorter one is another file.
    let mut all = vec![Fault::Cut(100_000)];
    all.extend(faults().into_iter().filter(|fault| !matches!(fault, Fault::Short(_))));
    let all = Mutex::new(VecDeque::from(all));
    let script: Script = Box::new(move |_, _| all.lock().unwrap().pop_front());
    let server = Server::start(NAME, bytes.clone(), Personality::agave(), script);
    assert!(fetch(&server, &impatient()).unwrap() == bytes);
    assert_eq!(server.asked().len(), 10);
}

fn failure(result: Result<Vec<u8>, SourceError>) -> (Family, Code, String) {
    let error = result.unwrap_err();
    (error.family(), error.code(), error.to_string())
}

#[test]
fn a_file_that_changes_under_way_is_refused_by_name() {
    let bytes = file(700_000);
    // Without ranges: what was received before is another file's.
    let script: Script = Box::new(|number, _| match number {
        0 => Some(Fault::Cut(300_000)),
        _ => Some(Fault::OtherBytesFrom(299_000)),
    });
    let server = Server::start(NAME, bytes.clone(), Personality::agave(), script);
    let (family, code, text) = failure(fetch(&server, &impatient()));
    assert_eq!((family, code), (Family::BadArchive, Code::ArchiveChanging), "{text}");
    assert!(text.contains("digest"), "{text}");
    for (personality, fault, what) in [
        (Personality::nginx(), Fault::OtherTag, "its tag"),
        (Personality::nginx(), Fault::Status("412 Precondition Failed"), "its tag"),
        (
            Personality::firedancer(),
            Fault::Headers("Last-Modified: yesterday\r\n"),
            "the time of its change",
        ),
    ] {
        let server = Server::start(NAME, bytes.clone(), personality, at(2, fault));
        let (family, code, text) = failure(fetch(&server, &impatient()));
        assert_eq!((family, code), (Family::BadArchive, Code::ArchiveChanging), "{text}");
        assert!(text.contains(what) && text.contains(NAME), "{text}");
    }
}

#[test]
fn answers_that_make_no_sense_end_the_transfer() {
    let bytes = file(700_000);
    let endless = format!("HTTP/1.1 206 OK\r\nX: {}", "x".repeat(70 << 10)).into_bytes();
    for (fault, word) in [
        (Fault::Raw(b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n".to_vec()), "not HTTP"),
        (Fault::Raw(endless), "longer than"),
        (
            Fault::Raw(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 1-2/3\r\n\r\n".to_vec()),
            "requested",
        ),
        (Fault::Whole, "ranges any more"),
        (Fault::Headers("Content-Encoding: gzip\r\n"), "gzip"),
        (Fault::Headers("Transfer-Encoding: chunked\r\n"), "chunked"),
        (Fault::Status("404 Not Found"), "404 Not Found"),
        (Fault::Status("403 Forbidden"), "403 Forbidden"),
    ] {
        for number in [0, 1, 3] {
            if number == 0 && matches!(fault, Fault::Whole) {
                continue;
            }
            let script = at(number, fault.clone());
            let personality = Personality::firedancer();
            let server = Server::start(NAME, bytes.clone(), personality, script);
            let (family, code, text) = failure(fetch(&server, &impatient()));
            assert_eq!((family, code), (Family::Environment, Code::Network), "{number}: {text}");
            assert!(text.contains(word), "{number}: {text}");
        }
    }
}

#[test]
fn nothing_is_tried_for_ever() {
    let script: Script = Box::new(|number, _| (number > 0).then_some(Fault::Close));
    let server = Server::start(NAME, file(700_000), Personality::nginx(), script);
    let mut options = impatient();
    options.patience.give_up = Duration::from_millis(20);
    let (family, code, text) = failure(fetch(&server, &options));
    assert_eq!((family, code), (Family::Environment, Code::Network), "{text}");
}

#[test]
fn redirects_are_bounded() {
    let bytes = file(10);
    let server = Server::start("snapshot.tar.bz2", bytes, Personality::agave(), never());
    let address = Address::parse(&server.url("/snapshot.tar.bz2")).unwrap();
    let error = Remote::open(&address, &impatient(), &|| false).map(drop).unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
}

#[test]
fn secrets_stay_with_the_host_that_they_are_for() {
    let options = FetchOptions { headers: vec!["X-Key: 5ecret".to_owned()], ..impatient() };
    let server = Server::start(NAME, file(100_000), Personality::nginx(), never());
    let address = Address::parse(&server.url("/snapshot.tar.bz2")).unwrap();
    let remote = Remote::open(&address, &options, &|| false).unwrap();
    let memory = pool(1 << 20);
    read(remote.read(memory.clone()), &memory).unwrap();
    let has_key = |server: &Server| {
        server
            .asked()
            .iter()
            .map(|asked| asked.headers.contains("x-key: 5ecret"))
            .collect::<Vec<_>>()
    };
    assert!(has_key(&server).into_iter().all(|has| has));
    // By a redirect to another port.
    let onward = format!(
        "HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
        server.url(&format!("/{NAME}"))
    );
    let first =
        Server::start(NAME, file(1), Personality::agave(), at(0, Fault::Raw(onward.into())));
    let before = server.asked().len();
    let pool = pool(1 << 20);
    read(open(&first, &options).unwrap().read(pool.clone()), &pool).unwrap();
    assert!(has_key(&first)[0]);
    assert!(!has_key(&server)[before..].iter().any(|has| *has));
    for header in ["x", "Range: bytes=0-", "a: b\r\nc: d"] {
        let options = FetchOptions { headers: vec![header.to_owned()], ..impatient() };
        assert_eq!(open(&first, &options).map(drop).unwrap_err().family(), Family::Request);
    }
}

#[test]
fn a_silent_server_does_not_delay_a_cancellation() {
    for personality in [Personality::agave(), Personality::nginx()] {
        let stalled = usize::from(personality.ranges);
        let fault = Fault::Stall(if stalled == 0 { HEAD as u64 } else { 0 });
        let script: Script = Box::new(move |number, _| (number >= stalled).then(|| fault.clone()));
        let server = Server::start(NAME, file(700_000), personality, script);
        let options = FetchOptions { patience: Patience::default(), ..impatient() };
        let pool = pool(1 << 20);
        let mut reader = open(&server, &options).unwrap().read(pool.clone());
        assert_eq!(reader.next_span().unwrap().unwrap().bytes.len(), HEAD);
        std::thread::scope(|scope| {
            scope.spawn(|| pool.close());
            assert!(matches!(reader.next_span(), Err(SourceError::Cancelled)));
        });
        // All blocks come back.
        drop(reader);
    }
    // Before there is a reader.
    let script = at(0, Fault::Stall(10));
    let server = Server::start(NAME, file(700_000), Personality::nginx(), script);
    let since = Instant::now();
    let address = Address::parse(&server.url(&format!("/{NAME}"))).unwrap();
    let cancelled = || since.elapsed() > Duration::from_millis(1);
    let opened = Remote::open(&address, &FetchOptions::default(), &cancelled).map(drop);
    assert!(matches!(opened, Err(FetchError::Cancelled)));
}

#[test]
fn a_missing_server_is_named() {
    let server = Server::start(NAME, file(1), Personality::agave(), never());
    let url = server.url("/x?token=5ecret");
    drop(server);
    let error = Remote::open(&Address::parse(&url).unwrap(), &impatient(), &|| false);
    let error = error.map(drop).unwrap_err();
    assert_eq!((error.family(), error.code()), (Family::Environment, Code::Network));
    let text = error.to_string();
    assert!(text.contains("refused") && !text.contains("5ecret"), "{text}");
}

/// A certificate of this machine, for a server and for its clients.
struct Certificate {
    server: Arc<ServerConfig>,
    file: tempfile::NamedTempFile,
}

impl Certificate {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let text = base64::engine::general_purpose::STANDARD.encode(made.cert.der());
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
        writeln!(file, "{begin}\n{text}\n{end}").unwrap();
        Self { server: Arc::new(server), file }
    }

    fn serve(&self, bytes: Vec<u8>, personality: Personality, script: Script) -> Server {
        let config = Arc::clone(&self.server);
        let wrap = move |plain| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            Ok(Box::new(StreamOwned::new(session, plain)) as Box<dyn Connection>)
        };
        Server::start_wrapped(NAME, bytes, personality, script, Box::new(wrap))
    }
}

fn open_tls(server: &Server, options: &FetchOptions) -> Result<Remote, FetchError> {
    let url = format!("https://127.0.0.1:{}/{NAME}", server.port());
    Remote::open(&Address::parse(&url).unwrap(), options, &|| false)
}

#[test]
fn encrypted_archives_need_a_trusted_certificate() {
    let certificate = Certificate::new();
    let bytes = file(1_000_003);
    for personality in [Personality::agave(), Personality::nginx()] {
        // The server ends the second connection without a word, as an attacker would.
        let script = script(vec![Fault::Cut(100_000), Fault::Close]);
        let server = certificate.serve(bytes.clone(), personality, script);
        let error = open_tls(&server, &impatient()).map(drop).unwrap_err();
        assert_eq!((error.family(), error.code()), (Family::Environment, Code::Network));
        assert!(error.to_string().contains("certificate"), "{error}");
        let authorities = vec![certificate.file.path().to_owned()];
        let options = FetchOptions { authorities, ..impatient() };
        let memory = pool(256 << 10);
        let reader = open_tls(&server, &options).unwrap().read(memory.clone());
        assert!(read(reader, &memory).unwrap() == bytes);
    }
    for authority in ["/dev/null", "/nonexistent"] {
        let options = FetchOptions { authorities: vec![authority.into()], ..impatient() };
        let server = certificate.serve(file(1), Personality::agave(), never());
        let error = open_tls(&server, &options).map(drop).unwrap_err();
        assert_eq!(error.family(), Family::Request, "{error}");
    }
}

/// A few bytes again and again would hold up a run for ever.
#[test]
fn a_server_that_lets_bytes_drip_is_given_up() {
    let bytes = file(400_000);
    for personality in [Personality::agave(), Personality::nginx()] {
        let script: Script =
            Box::new(|number, _| Some(Fault::Drip(if number == 0 { 70_000 } else { 10 })));
        let server = Server::start(NAME, bytes.clone(), personality, script);
        let mut options = impatient();
        options.patience.judged_after = Duration::from_millis(100);
        // Each attempt takes a tenth of a second.
        options.patience.give_up = Duration::from_secs(1);
        let error = fetch(&server, &options).unwrap_err();
        assert_eq!(error.code(), Code::Network);
        assert!(error.to_string().contains("bytes came within"), "{error}");
    }
}

fn by(proxy: &proxy::Proxy, login: &str) -> FetchOptions {
    let proxy = Proxy::parse(&format!("http://{login}{}", proxy.address())).unwrap();
    FetchOptions { proxies: Proxies::all(proxy), ..impatient() }
}

#[test]
fn archives_come_by_a_proxy_whatever_the_server_answers() {
    let bytes = file(1_000_003);
    for personality in [Personality::agave(), Personality::nginx()] {
        let proxy = proxy::Proxy::start(None);
        let faults: Script = Box::new(|number, _| match number {
            0 => Some(Fault::Cut(100_000)),
            1 => Some(Fault::Close),
            _ => None,
        });
        let server = Server::start(NAME, bytes.clone(), personality.clone(), faults);
        assert!(fetch(&server, &by(&proxy, "")).unwrap() == bytes);
        let asked = format!("GET {} HTTP/1.1\r\n", server.url(&format!("/{NAME}")));
        let heads = proxy.heads();
        assert!(heads.len() > 1 && heads.iter().all(|head| head.starts_with(&asked)), "{heads:?}");
        // Encrypted, it only connects.
        let certificate = Certificate::new();
        let server = certificate.serve(bytes.clone(), personality, script(vec![Fault::Close]));
        let authorities = vec![certificate.file.path().to_owned()];
        let remote = open_tls(&server, &FetchOptions { authorities, ..by(&proxy, "") }).unwrap();
        let pool = pool(256 << 10);
        assert!(read(remote.read(pool.clone()), &pool).unwrap() == bytes);
        let heads = proxy.heads().split_off(heads.len());
        let connect = format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n", server.port());
        assert!(
            !heads.is_empty() && heads.iter().all(|head| head.starts_with(&connect)),
            "{heads:?}"
        );
    }
}

#[test]
fn a_proxy_that_refuses_is_named_without_its_password() {
    let proxy = proxy::Proxy::start(Some("Basic dXNlcjpwYXNz"));
    let server = Server::start(NAME, file(100_000), Personality::nginx(), never());
    assert!(fetch(&server, &by(&proxy, "user:pass@")).unwrap() == file(100_000));
    let certificate = Certificate::new();
    let encrypted = certificate.serve(file(100_000), Personality::nginx(), never());
    let wrong = by(&proxy, "user:secret@");
    for error in [open(&server, &wrong), open_tls(&encrypted, &wrong)] {
        let error = error.map(drop).unwrap_err();
        assert_eq!((error.family(), error.code()), (Family::Environment, Code::Network));
        let text = format!("{error} {error:?} {:?}", error.remedy());
        assert!(text.contains("407 Proxy") && text.contains("https_proxy"), "{text}");
        assert!(!text.contains("secret") && !text.contains("Basic"), "{text}");
    }
    // Nobody is there.
    let gone = by(&proxy, "user:secret@");
    drop(proxy);
    let error = open(&server, &gone).map(drop).unwrap_err().to_string();
    assert!(error.contains("by the proxy 127.0.0.1:") && !error.contains("secret"), "{error}");
}

#[test]
fn what_the_proxy_is_told_by_a_later_part_of_the_answer_is_no_connection() {
    // A server that takes the request to connect for one of its own.
    let server = Server::start(NAME, file(10), Personality::nginx(), never());
    let options = FetchOptions {
        proxies: Proxies::all(Proxy::parse(&format!("127.0.0.1:{}", server.port())).unwrap()),
        ..impatient()
    };
    let error = open_tls(&server, &options).map(drop).unwrap_err();
    assert!(error.to_string().contains("404 Not Found"), "{error}");
}

#[test]
fn memory_in_front_of_each_span_is_reserved_if_it_is_asked_for() {
    let bytes = file(3_000_001);
    for personality in [Personality::agave(), Personality::nginx()] {
        let server =
            Server::start(NAME, bytes.clone(), personality, script(vec![Fault::Cut(9000)]));
        let pool = pool(256 << 10);
        let mut source = open(&server, &impatient()).unwrap().with_headroom(true).read(pool);
        let mut found = Vec::new();
        while let Some(span) = source.next_span().unwrap() {
            // The first bytes came before there was memory.
            match source.headroom() {
                None => assert_eq!(span.offset, 0),
                Some(front) => assert_eq!(front.as_ptr_range().end, span.bytes.as_ptr()),
            }
            assert!(source.headroom().is_none());
            found.extend_from_slice(&span.bytes);
        }
        assert!(found == bytes);
    }
}

#[test]
fn a_probe_tells_what_the_server_can_do_and_asks_for_little() {
    let bytes = file(3_000_001);
    let limits = (Duration::from_mins(1), 500_000);
    for (personality, ranges) in [
        (Personality::agave(), false),
        (Personality::nginx(), true),
        (Personality { closes: true, ..Personality::nginx() }, true),
    ] {
        let server = Server::start(NAME, bytes.clone(), personality.clone(), never());
        let address = Address::parse(&server.url("/snapshot.tar.bz2")).unwrap();
        let probe = Remote::probe(&address, &impatient(), limits, &|| false).unwrap();
        assert_eq!((probe.redirects, probe.has_ranges), (1, ranges));
        assert_eq!(probe.address.file_name(), NAME);
        assert_eq!((probe.identity.bytes, probe.identity.etag), (3_000_001, personality.etag));
        assert_eq!((probe.received, probe.end_answered_in.is_some()), (500_000, ranges));
        assert_eq!(server.asked().len(), if ranges { 3 } else { 1 });
    }
    // All that a small archive has.
    let server = Server::start(NAME, file(70_000), Personality::nginx(), never());
    let address = Address::parse(&server.url(&format!("/{NAME}"))).unwrap();
    let probe = Remote::probe(&address, &impatient(), limits, &|| false).unwrap();
    assert_eq!((probe.redirects, probe.received), (0, 70_000 - HEAD as u64));
    let none = Remote::probe(&address, &impatient(), (Duration::ZERO, 1), &|| false).unwrap();
    assert_eq!(none.received, 0);
    let whole = at(1, Fault::Whole);
    let server = Server::start(NAME, file(70_000), Personality::nginx(), whole);
    let address = Address::parse(&server.url(&format!("/{NAME}"))).unwrap();
    let error = Remote::probe(&address, &impatient(), limits, &|| false).unwrap_err();
    assert!(error.to_string().contains("ranges any more"), "{error}");
}

fn race(servers: &[&Server], contest: Contest) -> Result<(Raced, Vec<Entrant>), FetchError> {
    // No silence of a busy machine puts a server out of a race, or out of a measurement.
    let mut options = impatient();
    options.patience.silence = Duration::from_mins(1);
    let entrant = |server: &&Server| Entrant {
        address: Address::parse(&server.url(&format!("/{NAME}"))).unwrap(),
        options: options.clone(),
    };
    let entrants: Vec<_> = servers.iter().map(entrant).collect();
    Remote::race(&entrants, contest, &|| false).map(|raced| (raced, entrants))
}

/// Rules that no busy machine decides.
fn patient_contest(bytes: u64) -> Contest {
    Contest { time: Duration::from_mins(1), bytes, ..Contest::default() }
}

#[test]
fn the_fastest_server_wins_and_its_bytes_are_kept() {
    let bytes = file(1_000_003);
    for personality in [Personality::agave(), Personality::firedancer(), Personality::nginx()] {
        let drip: Script = Box::new(|_, _| Some(Fault::Drip(1000)));
        let slow = Server::start(NAME, bytes.clone(), Personality::agave(), drip);
        let fast = Server::start(NAME, bytes.clone(), personality.clone(), never());
        let gone: Script = Box::new(|_, _| Some(Fault::Status("404 Not Found")));
        let gone = Server::start(NAME, bytes.clone(), Personality::agave(), gone);
        // Of odd lengths, since what the race brings does not end with a page.
        let contest = patient_contest(200_001);
        let (raced, entrants) = race(&[&slow, &gone, &fast], contest).unwrap();
        assert_eq!(raced.winner, 2);
        assert!(raced.rates[2].is_some() && raced.rates[1].is_none(), "{:?}", raced.rates);
        // The race may be over before the other one has answered.
        assert!(!raced.failed[0] && !raced.failed[2]);
        let remote = Remote::open_raced(raced.start, &entrants[2].options).unwrap();
        assert_eq!(remote.head(), &bytes[..HEAD]);
        let pool = pool(256 << 10);
        assert!(read(remote.read(pool.clone()), &pool).unwrap() == bytes, "{personality:?}");
        if !personality.ranges {
            assert_eq!(fast.asked().len(), 1, "nothing comes twice");
        }
    }
}

#[test]
fn a_race_ends_anywhere_in_an_archive() {
    for length in [1, HEAD - 1, HEAD, HEAD + 1, HEAD + 4096, 300_000] {
        for personality in [Personality::agave(), Personality::nginx()] {
            for raced_bytes in [0, HEAD as u64, HEAD as u64 + 4095, 150_000, u64::MAX] {
                let server = Server::start(NAME, file(length), personality.clone(), never());
                let (raced, entrants) = race(&[&server], patient_contest(raced_bytes)).unwrap();
                let remote = Remote::open_raced(raced.start, &entrants[0].options).unwrap();
                let pool = pool(256 << 10);
                let headroom = raced_bytes % 2 == 0;
                let read = read(remote.with_headroom(headroom).read(pool.clone()), &pool).unwrap();
                assert!(read == file(length), "{length} {raced_bytes}");
            }
        }
    }
}

#[test]
fn a_winner_that_breaks_is_asked_again() {
    let bytes = file(500_000);
    for personality in [Personality::agave(), Personality::nginx()] {
        let number = usize::from(personality.ranges) + 1;
        let script: Script = Box::new(move |asked, _| match asked {
            0 => Some(Fault::Cut(300_000)),
            _ if asked == number => Some(Fault::Cut(1000)),
            _ => None,
        });
        let server = Server::start(NAME, bytes.clone(), personality, script);
        let (raced, entrants) = race(&[&server], patient_contest(150_000)).unwrap();
        let remote = Remote::open_raced(raced.start, &entrants[0].options).unwrap();
        let pool = pool(256 << 10);
        assert!(read(remote.read(pool.clone()), &pool).unwrap() == bytes);
    }
}

#[test]
fn a_race_without_a_winner_tells_why() {
    let gone = || -> Script { Box::new(|_, _| Some(Fault::Status("404 Not Found"))) };
    let cut: Script = Box::new(|_, _| Some(Fault::Cut(70_000)));
    let all = [gone(), cut, gone()]
        .map(|script| Server::start(NAME, file(200_000), Personality::agave(), script));
    let error = race(&[&all[0], &all[1], &all[2]], patient_contest(u64::MAX)).err().unwrap();
    assert_eq!((error.family(), error.code()), (Family::Environment, Code::Network));
    let error = race(&[], Contest::default()).err().unwrap();
    assert_eq!(error.code(), Code::Threads);
    let silent: Script = Box::new(|_, _| Some(Fault::Stall(0)));
    let silent = Server::start(NAME, file(10), Personality::agave(), silent);
    let address = Address::parse(&silent.url(&format!("/{NAME}"))).unwrap();
    let entrants = [Entrant { address, options: impatient() }];
    let error = Remote::race(&entrants, Contest::default(), &|| true).err().unwrap();
    assert_eq!(error.family(), Family::Cancelled);
}

#[test]
fn a_server_that_becomes_slow_is_left_for_a_faster_one() {
    let bytes = file(500_000);
    let contest = Contest {
        judged_after: Duration::from_millis(200),
        restart: Duration::ZERO,
        ..patient_contest(200_000)
    };
    // On a busy machine the loser may have sent too little to be known by the end of the race.
    let begun = (0..100).find_map(|_| {
        // It wins the race, and then drips.
        let drip: Script = Box::new(|_, _| Some(Fault::Drip(220_000)));
        let tired = Server::start(NAME, bytes.clone(), Personality::agave(), drip);
        // It loses the race, since its first answer drips earlier.
        let late: Script = Box::new(|number, _| (number == 0).then_some(Fault::Drip(100_000)));
        let late = Server::start(NAME, bytes.clone(), Personality::agave(), late);
        let (raced, entrants) = race(&[&late, &tired], contest).unwrap();
        assert_eq!(raced.winner, 1);
        (raced.start.rivals() == 1).then_some((raced, entrants, late, tired))
    });
    let (raced, entrants, late, _tired) = begun.expect("the loser is never known");
    let mut options = entrants[1].options.clone();
    options.patience.judged_after = Duration::from_secs(15);
    options.patience.give_up = Duration::from_secs(1);
    let remote = Remote::open_raced(raced.start, &options).unwrap();
    let pool = pool(256 << 10);
    let error = read(remote.read(pool.clone()), &pool).unwrap_err();
    assert_eq!((error.family(), error.code()), (Family::Environment, Code::Network));
    // On a busy machine the reader may tire before the other one is known to be faster.
    let told = error.to_string();
    let is_outpaced = told.contains("takes less time");
    assert!(is_outpaced || told.contains("bytes came within"), "{told}");
    assert!(!is_outpaced || late.asked().len() == 2, "the race, and one measurement");
}
