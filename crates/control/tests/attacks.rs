#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers of tests are not seen to be tests
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]
//! Hostile clients. All attacks run in one test, one after another: they count the descriptors of
//! the whole process and change its limit.

mod ground;

use std::{fs, io::Write, sync::atomic::Ordering};

use ground::{Ground, Raw, progress, wait_for};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use unsnap_control::{Access, Limits, protocol::REQUEST_BYTES_MAX};

type Attack = fn(&Ground);

const ATTACKS: [(&str, Attack); 9] = [
    ("an oversized line", oversized_line),
    ("garbage", garbage),
    ("half lines", half_lines),
    ("many connections", many_connections),
    ("watchers that do not read", watchers_that_do_not_read),
    ("askers that do not read", askers_that_do_not_read),
    ("clients that vanish amid a reply", vanishing),
    ("no descriptors left", no_descriptors_left),
    ("random bytes", random_bytes),
];

#[test]
fn no_attack_harms_anybody_or_leaves_a_descriptor_behind() {
    let ground = Ground::new(Access::default(), Limits::default());
    ground.is_well();
    let mut before = 0;
    wait_for("nobody is connected", || {
        let now = descriptors();
        std::mem::replace(&mut before, now) == now
    });
    for (name, attack) in ATTACKS {
        println!("{name}");
        attack(&ground);
        ground.is_well();
        wait_for("all descriptors are given back", || descriptors() <= before);
        assert!(!ground.server.events().watched());
    }
}

fn descriptors() -> usize {
    // With the one that this takes.
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn oversized_line(ground: &Ground) {
    for end in ["", "\n"] {
        let mut client = ground.connect();
        client.say("{\"request\":\"status\"}\n");
        client.say(vec![b' '; REQUEST_BYTES_MAX + 1]);
        client.say(end);
        client.say(vec![b'a'; 1 << 20]);
        assert_eq!(client.hear().unwrap()["ok"]["answer"], "status");
        assert_eq!(client.refused(), "too-large");
        assert!(client.hear().is_none(), "the connection is closed");
    }
    // The longest line that is none too long.
    let mut client = ground.connect();
    client.say(vec![b' '; REQUEST_BYTES_MAX - 20]);
    client.say("{\"request\":\"status\"}\n");
    assert_eq!(client.hear().unwrap()["ok"]["answer"], "status");
}

fn garbage(ground: &Ground) {
    let mut client = ground.connect();
    let deep = "[".repeat(REQUEST_BYTES_MAX);
    let lines = ["\0", "}{", "null", "\u{feff}{}", "GET / HTTP/1.1", &deep, "{\"request\":{}}"];
    for line in lines {
        client.say(line);
        client.say("\n");
        assert_eq!(client.refused(), "bad-request");
    }
    client.say("\n\n\n{\"request\":\"status\"}\n");
    assert_eq!(client.hear().unwrap()["ok"]["answer"], "status");
}

fn half_lines(ground: &Ground) {
    for length in 1..20 {
        let mut client = ground.connect();
        client.say(&"{\"request\":\"pause\"}\n"[..length]);
    }
    // As slowly as can be, a connection each.
    let mut clients: Vec<Raw> = (0..8).map(|_| ground.connect()).collect();
    for byte in b"{\"request\":\"status\"}\n" {
        for client in &mut clients {
            client.say([*byte]);
        }
        ground.is_well();
    }
    for mut client in clients {
        assert_eq!(client.hear().unwrap()["ok"]["answer"], "status");
    }
}

fn many_connections(ground: &Ground) {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }).unwrap();
    // Both ends are in this process.
    let room = before.maximum.map_or(1000, |most| usize::try_from(most).unwrap() / 2);
    let number = room.min(1000);
    if number < 1000 {
        println!("only {number} connections: the limit of descriptors is {:?}", before.maximum);
    }
    let mut clients: Vec<Raw> = (0..number).map(|_| ground.connect()).collect();
    let mut refused = 0;
    for client in &mut clients {
        client.say("{\"request\":\"status\"}\n");
        let reply = client.hear().expect("everybody is told something");
        match reply["error"]["kind"].as_str() {
            None => assert_eq!(reply["ok"]["answer"], "status"),
            Some(kind) => {
                assert_eq!(kind, "too-many-connections");
                assert!(client.hear().is_none());
                refused += 1;
            }
        }
    }
    assert_eq!(clients.len() - refused, Limits::default().connections_max);
    drop(clients);
    wait_for("there is a place again", || {
        let mut client = ground.connect();
        client.say("{\"request\":\"status\"}\n");
        client.hear().is_some_and(|reply| reply["ok"]["answer"] == "status")
    });
    setrlimit(Resource::Nofile, before).unwrap();
}

fn watchers_that_do_not_read(ground: &Ground) {
    const EVENTS: u64 = 10_000;
    let events = ground.server.events();
    let mut lazy: Vec<Raw> = (0..4).map(|_| ground.connect()).collect();
    for client in &mut lazy {
        client.say("{\"request\":\"watch\"}\n");
        client.hear().unwrap();
    }
    for job in 0..EVENTS {
        events.publish(&progress(job));
    }
    ground.is_well();
    for client in &mut lazy {
        // Everything is accounted for: what came, in order, and what was missed.
        let (mut told, mut missed, mut last) = (0, 0, None);
        while told + missed < EVENTS {
            let event = client.hear().unwrap();
            if event["event"] == "missed" {
                missed += event["events"].as_u64().unwrap();
            } else {
                let job = event["job"].as_u64();
                assert!(job > last, "{event} after {last:?}");
                (told, last) = (told + 1, job);
            }
        }
        assert_eq!(told + missed, EVENTS);
        assert!(missed > 0 && told > 100, "{told} of {EVENTS}");
    }
    // They are as good as new.
    events.publish(&progress(EVENTS));
    for client in &mut lazy {
        assert_eq!(client.hear().unwrap()["job"], EVENTS);
    }
    drop(lazy);
    wait_for("they are forgotten", || !events.watched());
}

fn askers_that_do_not_read(ground: &Ground) {
    ground.answers.padding.store(100 << 10, Ordering::Relaxed);
    let before = ground.answers.asked.load(Ordering::Relaxed);
    let mut client = ground.connect();
    client.stream.get_ref().set_nonblocking(true).unwrap();
    // More than all buffers hold: the server must stop reading.
    let line = b"{\"request\":\"status\"}\n";
    let mut sent = 0;
    wait_for("the server reads no more", || {
        let asked = ground.answers.asked.load(Ordering::Relaxed);
        while let Ok(length) = client.stream.get_ref().write(&line[sent % line.len()..]) {
            sent += length;
        }
        // Nothing more is asked although there is more to read.
        std::thread::sleep(std::time::Duration::from_millis(200));
        asked == ground.answers.asked.load(Ordering::Relaxed)
    });
    let asked = ground.answers.asked.load(Ordering::Relaxed) - before;
    assert!(asked < 20, "{asked} answers of 100 KiB are waiting");
    ground.is_well();
    // It comes to its senses, and gets everything.
    client.stream.get_ref().set_nonblocking(false).unwrap();
    let whole = sent / line.len();
    for _ in 0..whole {
        assert_eq!(client.hear().unwrap()["ok"]["answer"], "status");
    }
    ground.answers.padding.store(0, Ordering::Relaxed);
}

fn vanishing(ground: &Ground) {
    ground.answers.padding.store(1 << 20, Ordering::Relaxed);
    for watch in [false, true] {
        for _ in 0..20 {
            let mut client = ground.connect();
            client.say(if watch {
                "{\"request\":\"watch\"}\n"
            } else {
                "{\"request\":\"status\"}\n"
            });
        }
    }
    ground.answers.padding.store(0, Ordering::Relaxed);
    wait_for("they are forgotten", || !ground.server.events().watched());
}

fn no_descriptors_left(ground: &Ground) {
    let before = getrlimit(Resource::Nofile);
    let heartbeat = ground.server.heartbeat();
    let beats = heartbeat.beats();
    // Room for the client's end, but not for the server's.
    let client = {
        let spare = fs::File::open("/dev/null").unwrap();
        let mut plugs = Vec::new();
        let tight = Rlimit { current: Some(descriptors() as u64 + 4), ..before };
        setrlimit(Resource::Nofile, tight).unwrap();
        while let Ok(plug) = fs::File::open("/dev/null") {
            plugs.push(plug);
        }
        drop(spare);
        let mut client = ground.connect();
        client.say("{\"request\":\"status\"}\n");
        // Well over a second, after which the server tries once more.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        client
    };
    setrlimit(Resource::Nofile, before).unwrap();
    let mut client = client;
    assert_eq!(client.hear().unwrap()["ok"]["answer"], "status");
    let turns = heartbeat.beats() - beats;
    assert!(turns < 1000, "{turns} turns: the loop spins while it cannot accept");
}

fn random_bytes(ground: &Ground) {
    const WATCH: usize = 5;
    let seed = 0x5eed_u64;
    println!("seed {seed}");
    let mut state = seed;
    // SplitMix64.
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let pieces: [&[u8]; 8] = [
        b"{\"request\":",
        b"\"status\"",
        b"}\n",
        b"\n",
        b"\"id\":1,",
        b"{\"request\":\"watch\"}\n", // number WATCH
        b"\xff",
        b"{\"request\":\"submit\",\"archive\":\"/a\"}\n",
    ];
    for _ in 0..300 {
        let mut client = ground.connect();
        let vanishes = random() % 2 == 0;
        for _ in 0..random() % 20 {
            match usize::try_from(random() % 12).unwrap() {
                // A watching client would have to be waited for.
                WATCH if !vanishes => {}
                piece if piece < pieces.len() => client.say(pieces[piece]),
                _ => client.say(random().to_ne_bytes()),
            }
        }
        if !vanishes {
            let heard = client.drain();
            for line in heard.split_inclusive(|byte| *byte == b'\n') {
                serde_json::from_slice::<serde_json::Value>(line).expect("whole lines of JSON");
                assert_eq!(line.last(), Some(&b'\n'));
            }
        }
    }
    wait_for("they are forgotten", || !ground.server.events().watched());
}
