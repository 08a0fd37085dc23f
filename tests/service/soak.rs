//! Hundreds of archives, good and bad, come and go, and so does the service.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;
use unsnap_test_support::{
    daemon::{Daemon, full, incremental},
    seed,
};
use unsnap_testkit::random::Random;

/// Archives in the directory at a time; older ones are removed, as validators do.
const STANDING_MAX: usize = 10;

/// Resident memory may grow by so much in the life of one process once it has worked, in KiB: what an
/// allocator keeps of jobs whose threads come and go. A leak of a job's memory (8 MiB) would show soon.
const GROWTH_KIB_MAX: u64 = 16 << 10;

/// An archive in the directory.
struct Standing {
    path: PathBuf,
    slot: u64,
    base: Option<u64>,
    good: bool,
}

/// What happens, and what must come of it.
struct Soak {
    daemon: Daemon,
    random: Random,
    slot: u64,
    standing: Vec<Standing>,
    /// Of every good archive that there has been: the name of its tree, and a copy.
    good: BTreeMap<String, PathBuf>,
    counts: BTreeMap<&'static str, u32>,
    /// Descriptors and memory when it had settled, of this process.
    sizes: Vec<(usize, u64)>,
}

impl Soak {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn rest(&mut self, ms_max: u64) {
        let ms = self.random.below(ms_max + 1);
        thread::sleep(Duration::from_millis(ms));
    }

    /// One more archive comes.
    fn archive(&mut self) {
        // A storage is of a slot of its own.
        self.slot += 20 + self.random.below(50);
        let newest_full = self.standing.iter().rev().find(|one| one.base.is_none());
        let base = newest_full.map(|one| one.slot).filter(|base| *base < self.slot);
        let base = base.filter(|_| self.random.chance(60));
        let spec = match base {
            None => full(self.slot, self.slot),
            Some(base) => incremental(base, self.slot, self.slot),
        };
        let made = self.daemon.make(&spec);
        let (kind, good) = match self.random.below(10) {
            0 => ("truncated", false),
            1 => ("garbage", false),
            2 => ("another's content", false),
            _ => ("good", true),
        };
        self.count(kind);
        let tree = match base {
            None => self.slot.to_string(),
            Some(base) => format!("{base}-{}", self.slot),
        };
        if good {
            self.good.insert(tree, made.clone());
        } else {
            spoil(&made, kind, self.slot);
        }
        let path = self.daemon.drop_in(&made);
        self.standing.push(Standing { path, slot: self.slot, base, good });
        if !good {
            fs::remove_file(made).unwrap();
        }
        while self.standing.len() > STANDING_MAX {
            fs::remove_file(self.standing.remove(0).path).unwrap();
        }
        if self.random.chance(10) {
            self.rest(60);
            let removed = self.standing.pop().unwrap();
            fs::remove_file(removed.path).unwrap();
            self.count("removed at once");
        }
    }

    /// The slot that must be there in the end: of the best pair of good archives that stand.
    fn expected(&self) -> Option<u64> {
        let good = || self.standing.iter().filter(|one| one.good);
        let full = good().filter(|one| one.base.is_none()).map(|one| one.slot).max()?;
        good().filter(|one| one.base == Some(full)).map(|one| one.slot).max().or(Some(full))
    }

    /// Waits until nothing is to be done, and looks at everything.
    fn settle(&mut self) {
        let expected = self.expected();
        self.daemon.until(&format!("it has settled at {expected:?}"), |daemon| {
            let target = daemon.target("tree");
            // A result may be of an archive that has been removed, and so be newer.
            target["state"] == "idle"
                && target["results"][0]["slot"].as_u64() >= expected
                && target["queued"].as_array().unwrap().is_empty()
        });
        let names = self.daemon.names("trees");
        for name in names.iter().filter(|name| !name.starts_with('.')) {
            let archive = self.good.get(name);
            let archive = archive.unwrap_or_else(|| panic!("{name} is of no good archive"));
            self.daemon.assert_tree("trees", name, archive);
        }
        self.daemon.until("what is old has been removed", |daemon| {
            let mut entries = fs::read_dir(daemon.path("trees")).unwrap();
            !entries.any(|entry| {
                entry.unwrap().file_name().display().to_string().starts_with(".unsnap-removed-")
            })
        });
        // The remover's last directory, and the connection that asked last, are closed a moment later.
        let sizes: Vec<_> = (0..5)
            .map(|_| {
                thread::sleep(Duration::from_millis(10));
                self.daemon.size()
            })
            .collect();
        self.sizes.push(sizes.into_iter().min().unwrap());
        self.count("settled");
        // Copies that can be of no result any more.
        let old: Vec<String> =
            self.good.keys().filter(|name| !names.contains(name)).cloned().collect();
        let standing =
            |name: &Path| self.standing.iter().any(|one| one.path.file_name() == name.file_name());
        let (gone, _): (Vec<String>, Vec<String>) =
            old.into_iter().partition(|name| !standing(&self.good[name]));
        for name in gone {
            let _ = fs::remove_file(self.good.remove(&name).unwrap());
        }
    }

    /// What was measured of a process is flat.
    fn judge_sizes(&mut self) {
        let sizes = std::mem::take(&mut self.sizes);
        let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else { return };
        let _ = writeln!(
            io::stderr(),
            "soak: a process settled {} times: descriptors {} then {}, KiB resident {} then {}",
            sizes.len(),
            first.0,
            last.0,
            first.1,
            last.1
        );
        assert!(last.0 <= first.0 + 2, "descriptors: {sizes:?}");
        assert!(last.1 <= first.1 + GROWTH_KIB_MAX, "memory: {sizes:?}");
    }

    fn kill(&mut self) {
        self.judge_sizes();
        self.daemon.end(Signal::KILL);
        self.count("killed");
        self.daemon.start();
    }

    fn reload(&mut self) {
        let keep = 1 + self.random.below(3);
        let target = self.daemon.tree_target("tree", "trees", u32::try_from(keep).unwrap());
        let bad = self.random.chance(30);
        self.daemon.configure(&if bad {
            format!("{target}\nnonsense = 1\n")
        } else {
            target.clone()
        });
        let answer = self.daemon.ask(&json!({"request": "reload"}));
        assert_eq!(answer.is_err(), bad, "{answer:?}");
        if bad {
            // Or the next start would be refused as well.
            self.daemon.configure(&target);
        }
        self.count(if bad { "bad reloads" } else { "reloads" });
    }
}

/// Makes an archive bad that was good.
fn spoil(path: &Path, kind: &str, slot: u64) {
    let mut bytes = fs::read(path).unwrap();
    match kind {
        "truncated" => bytes.truncate(bytes.len() * 2 / 3),
        "garbage" => bytes.iter_mut().for_each(|byte| *byte ^= 0x5a),
        _ => {
            // A good archive of another slot, under this name.
            bytes.clear();
            unsnap_testkit::archive::write_archive(&full(slot + 1_000_000, slot), &mut bytes)
                .unwrap();
        }
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn no_good_archive_is_missed_and_no_bad_one_published() {
    let archives = std::env::var("UNSNAP_SOAK_ARCHIVES").ok().and_then(|text| text.parse().ok());
    let archives: u32 = archives.unwrap_or(40);
    let (random, since) = (Random::new(seed("soak")), Instant::now());
    let mut soak = Soak {
        daemon: Daemon::new(),
        random,
        slot: 1_000_000,
        standing: Vec::new(),
        good: BTreeMap::new(),
        counts: BTreeMap::new(),
        sizes: Vec::new(),
    };
    soak.daemon.start();
    for _ in 0..archives {
        soak.archive();
        match soak.random.below(100) {
            0..40 => {}
            40..70 => soak.rest(150),
            70..90 => soak.settle(),
            90..95 => soak.kill(),
            _ => soak.reload(),
        }
    }
    soak.settle();
    soak.judge_sizes();
    assert!(soak.daemon.end(Signal::TERM).success());
    let _ = writeln!(
        io::stderr(),
        "soak: {archives} archives in {} s: {:?}; newest {:?}",
        since.elapsed().as_secs(),
        soak.counts,
        soak.expected()
    );
}
