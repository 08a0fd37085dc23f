use std::{
    cell::{Cell, RefCell},
    fs::File,
};

use tempfile::TempDir;
use unsnap_fastboot::{LedgerLock, WaitingStart};

use super::*;

/// A clock that goes on by a minute at each rest, and lets something happen.
struct Minutes<F> {
    rests: u32,
    happens: F,
}

impl<F: FnMut(u32)> Clock for Minutes<F> {
    fn rest(&mut self) -> Duration {
        self.rests += 1;
        (self.happens)(self.rests);
        Duration::from_mins(self.rests.into())
    }
}

fn clock_of<F: FnMut(u32)>(happens: F) -> Minutes<F> {
    Minutes { rests: 0, happens }
}

fn ledger() -> (TempDir, Places) {
    let scratch = tempfile::tempdir().unwrap();
    let places = Places::new(scratch.path());
    (scratch, places)
}

/// An attempt to get the ledger, and its number.
fn attempt<'a>(
    places: &'a Places,
    attempts: &'a Cell<u32>,
) -> impl FnMut(bool) -> Result<u32, FastbootError> + 'a {
    move |again| {
        assert_eq!(again, attempts.get() > 0);
        attempts.set(attempts.get() + 1);
        LedgerLock::refuse_ours(&Syscalls::default(), &places.ledger).map(|()| attempts.get())
    }
}

fn shown(places: &Places) -> Option<WaitingStart> {
    WaitingStart::look(&Syscalls::default(), places)
}

#[test]
fn another_unsnap_is_waited_for_and_told() {
    let (scratch, places) = ledger();
    let lock = RefCell::new(Some(LedgerLock::take(scratch.path()).unwrap()));
    let (said, attempts) = (Cell::new(0), Cell::new(0));
    let mut clock = clock_of(|rests| {
        assert_eq!(shown(&places), Some(WaitingStart { oldest: 7 }));
        if rests == 3 {
            drop(lock.take());
        }
    });
    let say = |error: &FastbootError| {
        assert!(error.to_string().contains("another unsnap is at work on"), "{error}");
        said.set(said.get() + 1);
    };
    let wait = Wait { places: &places, oldest: 7 };
    let result = wait.for_others(&mut clock, || false, say, attempt(&places, &attempts));
    // Once before the wait, and once when the other one has ended.
    assert_eq!(result.unwrap(), 2);
    assert_eq!((said.get(), clock.rests), (1, 3));
    assert_eq!(shown(&places), None);
    assert!(!scratch.path().join(unsnap_fastboot::WAITING_FILE).exists());
}

#[test]
fn who_is_not_in_the_way_is_not_waited_for() {
    let (_scratch, places) = ledger();
    let mut never = clock_of(|_| panic!("waited"));
    let say = |error: &FastbootError| panic!("{error}");
    let wait = Wait { places: &places, oldest: 0 };
    let done = wait.for_others(&mut never, || true, say, |_| Ok(5));
    assert_eq!(done.unwrap(), 5, "attempted even if the time is up");
    let other = || FastbootError::Running { ledger: "/l".into(), holder: None };
    let failed = wait.for_others(&mut never, || false, say, |_| Err::<(), _>(other()));
    assert!(matches!(failed, Err(Vain::Failed(FastbootError::Running { .. }))), "{failed:?}");
}

#[test]
fn a_wait_ends_when_the_time_is_up() {
    let (scratch, places) = ledger();
    let _lock = LedgerLock::take(scratch.path()).unwrap();
    let wait = Wait { places: &places, oldest: 0 };
    let (over, attempts) = (Cell::new(false), Cell::new(0));
    let mut clock = clock_of(|rests| over.set(rests == 2));
    let result = wait.for_others(&mut clock, || over.get(), |_| {}, attempt(&places, &attempts));
    assert!(matches!(result, Err(Vain::Failed(_))), "{result:?}");
    assert_eq!(clock.rests, 2);
    assert_eq!(shown(&places), None);
    // Before the first rest.
    let mut never = clock_of(|_| panic!("waited"));
    let (attempts, say) = (Cell::new(0), |error: &FastbootError| panic!("{error}"));
    let result = wait.for_others(&mut never, || true, say, attempt(&places, &attempts));
    assert!(matches!(result, Err(Vain::Failed(_))), "{result:?}");
    assert_eq!(attempts.get(), 1);
}

#[test]
fn nobody_is_waited_for_for_ever() {
    let (scratch, places) = ledger();
    let _lock = LedgerLock::take(scratch.path()).unwrap();
    let wait = Wait { places: &places, oldest: 0 };
    let (mut clock, attempts) = (clock_of(|_| {}), Cell::new(0));
    let result = wait.for_others(&mut clock, || false, |_| {}, attempt(&places, &attempts));
    assert!(matches!(result, Err(Vain::TooLong(FastbootError::Locked { .. }))), "{result:?}");
    assert_eq!((u64::from(clock.rests) * 60, attempts.get()), (WAIT_MAX.as_secs(), 1));
    assert_eq!(shown(&places), None);
}

#[test]
fn what_gets_ready_meanwhile_is_attempted_although_the_other_one_goes_on() {
    let (scratch, places) = ledger();
    let lock = File::create(scratch.path().join(".unsnap-next.lock")).unwrap();
    lock.lock().unwrap();
    let ready = places.beside().state(9);
    let mut clock = clock_of(|rests| {
        if rests == 2 {
            std::fs::create_dir_all(&ready).unwrap();
            std::fs::write(ready.join("fastboot_version"), "3.0.0").unwrap();
        }
    });
    let wait = Wait { places: &places, oldest: 0 };
    let attempt = |_| {
        let other = FastbootError::Locked { path: "/other".into(), holder: None };
        if ready.exists() { Ok(()) } else { Err(other) }
    };
    wait.for_others(&mut clock, || false, |_| {}, attempt).unwrap();
    assert_eq!(clock.rests, 2);
}

#[test]
fn a_deadline_bounds_the_wait() {
    let deadline = |limit| Deadline::from_now(limit);
    assert_eq!(deadline(None).wait_max(), WAIT_MAX);
    assert_eq!(deadline(Some(WAIT_MAX * 2)).wait_max(), WAIT_MAX);
    assert_eq!(deadline(Some(WAIT_MAX / 2)).wait_max(), WAIT_MAX / 2);
    assert_eq!(deadline(None).passed(), None);
    assert_eq!(deadline(Some(Duration::ZERO)).passed(), Some(Duration::ZERO));
    assert_eq!(deadline(Some(WAIT_MAX)).passed(), None);
}
