//! The course of events.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    time::Instant,
};

use rustix::process::Signal;
use unsnap_test_support::{ledger_tool, machine::Machine, run};
use unsnap_testkit::{random::Random, series::Snapshot};

use crate::{
    daemon::{MIN_FREE, Service},
    events::{Choice, Event},
    laws::KILLS_MAX,
    process::{Came, How, Running, errors},
    quiet::{LAST_OF_BURST, Quiet},
    space::{MIN_FREE_FLAG, marked},
};

/// Events that are told after a failure.
const TOLD: usize = 30;

const ARCHIVE_USE: &str = "--use-snapshot-archives-at-startup";

/// A validator's machine, and everything that the laws need to know of what has happened to it.
#[derive(Debug)]
pub struct Soak {
    pub name: &'static str,
    seed: u64,
    pub random: Random,
    choice: Choice,
    // Processes go before the directories that they work in.
    pub running: Option<Running>,
    pub service: Option<Service>,
    pub machine: Machine,
    /// Number of the last start.
    pub starts: u32,
    /// Validators that a state has killed while it was loaded, one after the other, by its slot.
    pub kills: BTreeMap<u64, u32>,
    /// Validators that a state has killed since a byte of it was changed, by its slot.
    pub flipped: BTreeMap<u64, u32>,
    /// Starts that may still fail because of what was done to files.
    pub excused: u32,
    pub quiet: Quiet,
    /// Whether somebody else has filled the disk.
    pub is_full: bool,
    /// Bytes that the service had written when the soak last looked, if the disk is far too full since.
    pub written: Option<u64>,
    /// Bytes of the validators' log that were read.
    pub log_read: u64,
    /// Number of the event.
    event: u32,
    pub history: Vec<String>,
    pub counts: BTreeMap<String, u32>,
}

impl Soak {
    pub fn new(name: &'static str, mut machine: Machine, seed: u64, salt: u64) -> Self {
        let full = Snapshot::full_above(0);
        for snapshot in [full, Snapshot::incremental_above(full.slot())] {
            machine.add_archive(snapshot);
        }
        Self {
            name,
            seed,
            random: Random::of(&[seed, salt]),
            choice: Choice::new(),
            running: None,
            service: Some(Service::start(&machine)),
            machine,
            starts: 0,
            kills: BTreeMap::new(),
            flipped: BTreeMap::new(),
            excused: 0,
            quiet: Quiet::default(),
            is_full: false,
            written: None,
            log_read: 0,
            event: 0,
            history: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Lets so many things happen, and panics if a law is broken.
    pub fn run(mut self, events: u32) {
        let since = Instant::now();
        self.bring_up(None);
        for number in 1..=events {
            self.event = number;
            let event = self.choice.pick(&mut self.random);
            self.assert_files();
            self.tell(&format!("{event:?}"));
            self.happen(event);
            if self.running.is_none() {
                self.bring_up(None);
            }
            self.assert_storages();
            self.assert_min_free();
            if self.random.chance(LAST_OF_BURST) {
                self.be_quiet();
            }
        }
        self.free_disk();
        self.assert_files();
        self.assert_ready();
        let _ = writeln!(
            io::stderr(),
            "soak on {}: {events} events, {} starts in {} s; {}: {:?}",
            self.name,
            self.starts,
            since.elapsed().as_secs(),
            self.quiet,
            self.counts
        );
    }

    /// Notes what happens.
    pub fn tell(&mut self, what: &str) {
        let word = what.split(':').next().unwrap_or_default().to_owned();
        *self.counts.entry(word).or_default() += 1;
        self.history.push(what.to_owned());
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Full => self.snapshot("full"),
            Event::Incremental => self.snapshot("incremental"),
            Event::Shrink => self.change("shrink"),
            Event::Delete => self.change("delete"),
            Event::Exit => {
                let end = self.take_running().end_by("exit");
                assert!(end.success() || self.is_full, "{end}");
                self.state_written();
            }
            Event::Stop => {
                let end = self.take_running().end(Signal::TERM);
                assert!(end.success() || self.is_full, "{end}");
                self.state_written();
            }
            Event::Kill => drop(self.take_running().end(Signal::KILL)),
            Event::Abort => drop(self.take_running().end_by("abort")),
            Event::TornBank => {
                self.ask("tear");
                self.take_running().end(Signal::KILL);
            }
            Event::FailingStart => self.fail(1),
            Event::FailingStarts => self.fail(KILLS_MAX + 1),
            Event::KillStarting => self.end_start(Signal::KILL),
            Event::StopStarting => self.end_start(Signal::TERM),
            Event::RotateStarting => self.rotate(),
            Event::TwoStarts => self.start_twice(),
            Event::PlainStart => {
                self.take_running().end(Signal::KILL);
                let alone = self.machine.alone(&[]);
                // It would say nothing about unsnap, which might leave what only it can repair.
                if alone.up && !self.is_full {
                    self.bring_up(Some(How { plain: true, ..How::default() }));
                }
            }
            Event::CutArchive => self.cut_archive(),
            Event::RemoveBad => self.machine.remove_bad_archives(),
            Event::PrepareBeside => self.prepare_beside(),
            Event::FlipRun => {
                self.take_running().end(Signal::KILL);
                let ledger = self.machine.ledger.clone();
                self.flip(&ledger);
            }
            Event::FlipReady => {
                let ready = self.machine.ledger.beside();
                self.flip(&ready);
            }
            Event::FillDisk => self.fill_disk(),
            Event::CrowdDisk => self.crowd_disk(),
            Event::FreeDisk => self.free_disk(),
            Event::Service => match self.service.take() {
                Some(service) => service.stop(),
                None => self.start_service(),
            },
            Event::KillService => {
                if let Some(service) = &mut self.service {
                    service.kill_and_start();
                }
            }
            Event::Reconfigure => {
                if let Some(service) = &mut self.service {
                    service.reconfigure(&mut self.random);
                }
            }
            Event::Settle => self.settle(),
        }
    }

    /// Starts the service, which has yet to make a state.
    pub fn start_service(&mut self) {
        self.service = Some(Service::start(&self.machine));
        self.quiet.begin_anew();
    }

    fn take_running(&mut self) -> Running {
        self.running.take().expect("it is brought up after each event")
    }

    /// Asks the validator; if the disk is full it may refuse.
    fn ask(&mut self, command: &str) -> Option<serde_json::Value> {
        match self.running.as_mut().expect("it is up").ask(command) {
            Ok(answer) => Some(answer),
            Err(error) => {
                assert!(self.is_full, "{command}: {error}");
                None
            }
        }
    }

    pub fn snapshot(&mut self, kind: &str) {
        if let Some(answer) = self.ask(kind) {
            let path = answer["path"].as_str().unwrap().to_owned();
            self.machine.archive_written(path.as_ref());
            // A state of it is another one.
            let slot = answer["slot"].as_u64().unwrap();
            self.kills.remove(&slot);
            self.flipped.remove(&slot);
        }
    }

    /// The validator has written its state, the only one that is there now. On a full disk it may have
    /// left a directory that is no state.
    fn state_written(&mut self) {
        for slot in marked(&self.machine.ledger) {
            self.kills.remove(&slot);
            self.flipped.remove(&slot);
        }
    }

    fn change(&mut self, verb: &str) {
        let number = self.random.below(1000);
        self.ask(&format!("{verb} {number}"));
    }

    fn fail(&mut self, times: u32) {
        self.take_running().end(Signal::KILL);
        for _ in 0..times {
            let how = How { fails: true, ..self.how() };
            self.attempt(&how);
        }
    }

    /// Ends a start in the middle.
    fn end_start(&mut self, signal: Signal) {
        self.take_running().end(Signal::KILL);
        let how = self.how();
        let starting = self.begin(&how);
        // At once, or when the front end has begun to make something, or later.
        let enough = usize::try_from(self.random.below(4)).unwrap();
        while self.machine.ledger.left_over().len() < enough && !starting.is_over(0, 500_000) {}
        let end = starting.end(signal);
        let loads = self.loads();
        self.died(&loads);
        if end.success() {
            self.state_written();
        }
    }

    /// Rotates logs while the front end prepares. It is too slow to be ready before its deadline.
    fn rotate(&mut self) {
        self.take_running().end(Signal::KILL);
        // So that there is something to prepare.
        if !self.is_full {
            let snapshot = Snapshot::incremental_above(self.machine.alone(&[]).slot);
            self.machine.add_archive(snapshot);
        }
        let mut how = How::default();
        for word in ["--replace", "--rate-limit", "1kB", "--deadline", "2s"] {
            how.own.push(word.to_owned());
        }
        // The operator insists, and all failures are forgotten.
        self.forget_kills();
        let before = self.machine.ledger.left_over();
        let starting = self.begin(&how);
        // Before it catches the signal, nothing of it has begun.
        let has_begun = |soak: &Self| {
            starting.catches(Signal::USR1)
                && soak.machine.ledger.left_over().iter().any(|path| !before.contains(path))
        };
        while !has_begun(self) && !starting.is_over(0, 500_000) {}
        starting.signal(Signal::USR1);
        let came = starting.wait();
        let loads = self.loads();
        match came {
            Came::Up(running) => {
                self.machine.let_an_hour_pass();
                self.running = Some(running);
            }
            Came::Ended(status) => {
                self.died(&loads);
                let told = fs::read_to_string(errors(&self.machine, self.starts)).unwrap();
                // It may have become the validator just before, which has not caught signals yet.
                let has_ended =
                    told.contains("starting the validator") || told.contains("is ready");
                self.hold(has_ended || self.is_full, &format!("SIGUSR1 ended the start: {status}"));
            }
        }
    }

    fn cut_archive(&mut self) {
        let full = self.random.chance(40);
        let good = self.machine.good(full);
        // The last whole full archive stays, or nobody could start.
        if good.len() < 1 + usize::from(full) {
            return;
        }
        let path = if self.random.chance(70) {
            good[good.len() - 1].clone()
        } else {
            self.random.pick(&good[usize::from(full)..]).clone()
        };
        let bytes = self.random.below(fs::metadata(&path).unwrap().len());
        self.tell(&format!("cut: {} to {bytes}", path.display()));
        self.machine.cut(&path, bytes);
        // To the front end the archive is another one, with another state.
        self.forget_kills();
    }

    /// Prepares a state beside the validator, as by hand.
    fn prepare_beside(&mut self) {
        let before = self.while_full();
        let mut tool = ledger_tool();
        tool.args(["fastboot", "prepare", "--beside", "--memory-budget", "8MiB"]);
        tool.args([MIN_FREE_FLAG, &MIN_FREE.to_string()]);
        let outcome = run(tool.args(self.machine.places()));
        // A validator's own state may be newer, all archives may be bad, the service may be quicker.
        let code = outcome.status.code();
        let refuses = outcome.stderr.contains("ended early") && !self.kills.is_empty();
        let may_fail = self.is_full || self.service.is_some() || refuses;
        self.hold(code == Some(0) || may_fail, &format!("prepare --beside: {outcome:#?}"));
        self.assert_none_was_made(before.as_ref());
    }

    /// Returns how the next start is made.
    pub fn how(&mut self) -> How {
        let mut how = How::default();
        let mut own = |words: &[&str]| how.own.extend(words.iter().map(|word| (*word).to_owned()));
        // Little memory, so that a start costs little.
        own(&["--quiet", "--memory-budget", "8MiB", "--decode-threads", "1"]);
        match self.random.below(10) {
            0 => own(&["--verify", "accounts"]),
            1 => own(&["--no-shadow"]),
            2 => own(&["--deadline", "0s"]),
            3 => own(&["--deadline", "1m"]),
            _ => {}
        }
        if self.random.chance(30) {
            own(&[MIN_FREE_FLAG, &MIN_FREE.to_string()]);
        }
        match self.random.below(20) {
            0 => how.further.extend([ARCHIVE_USE, "always"]),
            1 => how.further.extend([ARCHIVE_USE, "never"]),
            2 => how.further.extend([ARCHIVE_USE, "when-newest"]),
            _ => {}
        }
        how
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let told = self.history.len().saturating_sub(TOLD);
        let last = [self.starts.saturating_sub(1), self.starts];
        let errors = last.map(|start| {
            let said = fs::read_to_string(errors(&self.machine, start)).unwrap_or_default();
            format!("start {start}:\n{said}")
        });
        let errors = errors.concat();
        let log = self.service.as_ref().map(Service::log).unwrap_or_default();
        let _ = writeln!(
            io::stderr(),
            "soak on {}: UNSNAP_TEST_SEED={} UNSNAP_SOAK_EVENTS={}\nthe last events: {:#?}\nthe last starts:\n{errors}\n\
             the service:\n{log}\nfiles:\n{}",
            self.name,
            self.seed,
            self.event,
            &self.history[told..],
            self.machine.listing()
        );
    }
}
