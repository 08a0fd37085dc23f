//! The program of `on-event`, which is told of events that an operator should know of.
//!
//! A thread executes it, once for each event, so that nothing else waits for it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use unsnap_control::protocol::{Event, EventLine, Outcome};

use crate::completion::NOT_CLEAN;

/// Executes a program with this text as its standard input. It takes a bounded time, and reports errors
/// by itself.
pub type TellProgram = fn(&Path, &str);

/// Most events that wait for the program. Later ones are dropped, and that is logged. A guess: with 10
/// seconds each, the last one is told after ten minutes.
const WAITING_MAX: usize = 64;

/// The thread. It ends when this is dropped, and is not waited for.
#[derive(Debug)]
pub struct Hook {
    events: SyncSender<(PathBuf, String)>,
}

impl Hook {
    /// Starts the thread.
    pub fn start(tell: TellProgram) -> io::Result<Self> {
        let (events, received) = sync_channel(WAITING_MAX);
        let work = move |received: Receiver<(PathBuf, String)>| {
            for (program, line) in received {
                tell(&program, &line);
            }
        };
        let thread = thread::Builder::new().name("unpackd-hook".to_owned());
        thread.spawn(move || work(received))?;
        Ok(Self { events })
    }

    /// Has a program told of an event, if an operator should know of it. Does not block.
    pub fn tell(&self, program: &Path, event: &Event) {
        if program.as_os_str().is_empty() || !matters(event) {
            return;
        }
        let line = EventLine::now(event.clone()).to_line().unwrap_or_default();
        let line = String::from_utf8(line).unwrap_or_default();
        if self.events.try_send((program.to_owned(), line)).is_err() {
            let program = program.display();
            tracing::warn!(%program, "too many events wait for the program of on-event: one is dropped");
        }
    }
}

/// Returns whether an operator should know of an event.
fn matters(event: &Event) -> bool {
    match event {
        // Another process uses the target: the job is tried again.
        Event::JobEnded { outcome: Outcome::Failed, exit_code: NOT_CLEAN, .. } => false,
        Event::JobEnded { outcome, .. } => {
            matches!(outcome, Outcome::Failed | Outcome::BadArchive)
        }
        Event::StateGivenUp { .. } | Event::SpaceShort { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Mutex, MutexGuard, PoisonError},
        time::Duration,
    };

    use super::*;

    /// What the program was told, by the only test that tells.
    static TOLD: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

    fn told() -> MutexGuard<'static, Vec<(PathBuf, String)>> {
        TOLD.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given_up(slot: u64) -> Event {
        Event::StateGivenUp { target: "t".to_owned(), slot, message: "too often".to_owned() }
    }

    fn ended(outcome: Outcome, exit_code: u8) -> Event {
        let now = crate::archives::Now::get();
        let state = crate::testing::at_work(now);
        let target = &state.targets[0];
        let job = target.running_status(target.running.as_ref().unwrap(), now.instant);
        Event::JobEnded { job, outcome, message: None, elapsed_ms: 1, exit_code }
    }

    #[test]
    fn only_what_an_operator_should_know_of_matters() {
        for (event, expected) in [
            (ended(Outcome::Done, 0), false),
            (ended(Outcome::Failed, 3), true),
            (ended(Outcome::Failed, NOT_CLEAN), false),
            (ended(Outcome::BadArchive, 1), true),
            (ended(Outcome::Superseded, 130), false),
            (given_up(7), true),
            (Event::Paused, false),
        ] {
            assert_eq!(matters(&event), expected, "{event:?}");
        }
    }

    #[test]
    fn the_program_is_told_in_order_and_nobody_waits_for_it() {
        let hook = Hook::start(|program, line| {
            told().push((program.to_owned(), line.to_owned()));
        })
        .unwrap();
        let program = Path::new("/the/program");
        {
            // The thread cannot go on: all but one event wait, and then they are dropped.
            let _told = told();
            for slot in 0..200 {
                hook.tell(program, &given_up(slot));
            }
        }
        hook.tell(program, &Event::Paused);
        hook.tell(Path::new(""), &given_up(999));
        while told().len() < WAITING_MAX {
            thread::sleep(Duration::from_millis(1));
        }
        for (slot, (to, line)) in told().iter().enumerate() {
            assert_eq!(to, program);
            let event: EventLine = serde_json::from_str(line).unwrap();
            assert_eq!(event.event, given_up(slot as u64));
            assert!(line.ends_with("}\n"), "{line:?}");
        }
        assert!(told().len() <= WAITING_MAX + 1, "{}", told().len());
    }
}
