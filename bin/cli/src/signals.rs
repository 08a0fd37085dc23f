//! Signals: the first stops the run, the second ends the process and says what it leaves behind, the
//! third ends it even if nothing can be said.

use std::{
    fs, io,
    path::PathBuf,
    process::{self, ExitCode},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::Context;
use nix::sys::signal::{SigSet, SigmaskHow};
use signal_hook::{
    SigId,
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ},
    flag,
    iterator::{self, Handle},
    low_level::{emulate_default_handler, unregister},
};
use unsnap_pass::CancelToken;

use crate::last_words::last_words;

/// Number of the signal that stopped the run; 0 for none.
static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Makes SIGUSR1 and SIGUSR2 have no effect, which would end the process: operators send them to a
/// validator to rotate its logs. A program that this process executes has their old dispositions,
/// since a signal that is caught is reset by the kernel, and one that was ignored stays ignored.
pub fn disregard_log_rotation() -> io::Result<()> {
    let ignored = ignored();
    let mut numbers =
        [SIGUSR1, SIGUSR2].into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
    undisturbed(|| numbers.try_for_each(|number| flag::register(number, Arc::default()).map(drop)))
}

/// Registers actions for signals while none is delivered to this thread, which must be the only one.
///
/// When signal-hook (0.4) registers the first action for a signal, the kernel calls its handler a moment
/// before the handler knows the action: a signal in between has no effect at all, and whoever sent it
/// waits in vain.
pub fn undisturbed<T>(register: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let registered = register();
    before.thread_set_mask()?;
    registered
}

/// SIGINT, SIGTERM and SIGHUP, caught.
pub struct Signals {
    caught: iterator::Signals,
    /// Whether the next signal ends the process at once, in the handler itself.
    at_once: Arc<AtomicBool>,
    /// Actions that set `at_once` at the first signal, as long as no thread waits for signals.
    unwatched: Vec<SigId>,
}

impl Signals {
    /// Catches these signals. The first one is kept for [`cancel`](Self::cancel). The second one
    /// ends the process, because the user is impatient: staged files stay behind, and the next run
    /// removes them. A signal that was ignored when the process started (`nohup`) stays ignored.
    pub fn catch() -> anyhow::Result<Self> {
        let ignored = ignored();
        let numbers = [SIGINT, SIGTERM, SIGHUP];
        let numbers = numbers.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
        let at_once = Arc::new(AtomicBool::new(false));
        let mut unwatched = Vec::new();
        let register = || {
            for number in numbers.clone() {
                let value = usize::try_from(number).unwrap_or(0);
                // The order matters: the first signal must not count as the second.
                flag::register_conditional_default(number, Arc::clone(&at_once))?;
                flag::register_usize(number, Arc::clone(&RECEIVED), value)?;
                unwatched.push(flag::register(number, Arc::clone(&at_once))?);
            }
            // A write beyond the limit of file sizes then fails, instead of ending the process.
            flag::register(SIGXFSZ, Arc::default())?;
            iterator::Signals::new(numbers)
        };
        let caught = undisturbed(register).context("cannot watch for signals")?;
        Ok(Self { caught, at_once, unwatched })
    }

    /// Starts a thread that cancels the run at the first signal, or at once if one has arrived. At
    /// the second it prints what the run leaves behind and ends the process.
    pub fn cancel(self, token: CancelToken) -> io::Result<Watch> {
        let unfinished = token.unfinished().clone();
        self.watch(move || token.cancel(), move || unfinished.paths())
    }

    /// Starts a thread that calls `act` at the first signal, or at once if one has arrived. The
    /// second one ends the process.
    pub fn at_first(self, act: impl FnOnce() + Send + 'static) -> io::Result<Watch> {
        self.watch(act, Vec::new)
    }

    fn watch(
        mut self,
        act: impl FnOnce() + Send + 'static,
        left: impl FnOnce() -> Vec<PathBuf> + Send + 'static,
    ) -> io::Result<Watch> {
        // From now on the thread handles the second signal. It is never one of the threads that a
        // file system may block, and whatever blocks it, the third signal needs no thread.
        for action in self.unwatched {
            unregister(action);
        }
        self.at_once.store(false, Ordering::SeqCst);
        let (handle, at_once) = (self.caught.handle(), Arc::clone(&self.at_once));
        let watch = move || {
            let mut signals = self.caught.forever();
            if signals.next().is_none() {
                return;
            }
            act();
            let Some(second) = signals.next() else { return };
            self.at_once.store(true, Ordering::SeqCst);
            if let Some(words) = left_behind(&left()) {
                last_words(&words);
            }
            process::exit(die_of(second));
        };
        let thread = thread::Builder::new().name("unsnap-signals".to_owned()).spawn(watch)?;
        Ok(Watch { handle, at_once, thread })
    }
}

/// Returns what to say about paths that stay behind; `None` if there are none.
fn left_behind(paths: &[PathBuf]) -> Option<String> {
    let named: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let (be, them) = match named.len() {
        0 => return None,
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    Some(format!(
        "error: ended by a second signal: {} {be} left behind\n\
         hint: the next run of the same command removes or resumes {them}; to remove {them} now: \
         rm -r {}\n",
        named.join(" and "),
        named.join(" "),
    ))
}

/// The thread that waits for signals. It keeps running when this is dropped.
pub struct Watch {
    handle: Handle,
    at_once: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Restores the signals: from now on each ends the process at once, as before
    /// [`Signals::catch`]. Returns whether one has arrived; the caller then calls
    /// [`die_of_received`].
    pub fn end(self) -> bool {
        self.at_once.store(true, Ordering::SeqCst);
        self.handle.close();
        // If a signal was pending, the thread has handled it by now.
        let _ = self.thread.join();
        received()
    }
}

/// Returns whether a signal has arrived.
pub fn received() -> bool {
    RECEIVED.load(Ordering::SeqCst) != 0
}

/// Returns the signals that this process ignores, as a set of bits; bit 0 is signal 1.
fn ignored() -> u64 {
    fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok())
        .unwrap_or(0)
}

/// Ends the process by the signal that it received, so that a shell sees 128 plus its number.
pub fn die_of_received() -> ExitCode {
    let signal = match i32::try_from(RECEIVED.load(Ordering::SeqCst)) {
        Err(_) | Ok(0) => SIGINT,
        Ok(signal) => signal,
    };
    ExitCode::from(u8::try_from(die_of(signal)).unwrap_or(130))
}

/// Ends the process by a signal. Returns the exit code for a process that this does not end: the
/// signal is blocked, or the process is the first of a container.
fn die_of(signal: i32) -> i32 {
    let _ = emulate_default_handler(signal);
    128 + signal
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[test]
    fn a_signal_during_registration_is_delivered_after_it() {
        let seen = Arc::new(AtomicBool::new(false));
        let registered = undisturbed(|| {
            // Without the mask this would end the process.
            raise(Signal::SIGALRM)?;
            assert!(!seen.load(Ordering::SeqCst));
            flag::register(signal_hook::consts::SIGALRM, Arc::clone(&seen))
        });
        assert!(seen.load(Ordering::SeqCst));
        unregister(registered.unwrap());
    }

    #[test]
    fn what_is_left_behind_is_named_with_who_removes_it() {
        assert_eq!(left_behind(&[]), None);
        let one = left_behind(&["/x/.y".into()]).unwrap();
        assert!(one.contains("/x/.y is left behind\n"), "{one}");
        assert!(one.contains("the same command removes or resumes it"), "{one}");
        assert!(one.ends_with("rm -r /x/.y\n"), "{one}");
        let two = left_behind(&["/x/.y".into(), "/z".into()]).unwrap();
        assert!(
            two.contains("/x/.y and /z are left") && two.ends_with("rm -r /x/.y /z\n"),
            "{two}"
        );
    }
}
