use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    plan::{DAY_S, Window},
    testing::{archive, full},
};

fn pair(base: u64, slot: u64) -> Pair {
    Pair::new(archive(base, None), Some(archive(slot, Some(base)))).unwrap()
}

fn job(id: u64, pair: Pair, origin: Origin) -> Job {
    let files = Vec::new();
    Job { id, pair, files, origin, attempt: 1, not_before: None, last_error: None }
}

/// A target to which actions can be applied.
#[derive(Clone, Debug)]
struct Model {
    pairs: Vec<Pair>,
    refused: Vec<Pair>,
    unreadable: BTreeMap<PathBuf, RetryTimer>,
    done: Option<u64>,
    done_hash: Option<ArchiveHash>,
    running: Option<(Job, bool)>,
    queue: Vec<Job>,
    is_state: bool,
    supersede: bool,
    cadence: Cadence,
    usage: Usage,
    paused: bool,
    now: Instant,
    next_id: u64,
}

impl Model {
    fn new(pairs: Vec<Pair>) -> Self {
        Self {
            pairs,
            refused: Vec::new(),
            unreadable: BTreeMap::new(),
            done: None,
            done_hash: None,
            running: None,
            queue: Vec::new(),
            is_state: false,
            supersede: true,
            cadence: Cadence::default(),
            usage: Usage::default(),
            paused: false,
            now: Instant::now(),
            next_id: 1000,
        }
    }

    fn view(&self) -> View<'_> {
        View {
            pairs: &self.pairs,
            refused: &self.refused,
            unreadable: &self.unreadable,
            done: self.done,
            done_hash: self.done_hash,
            running: self.running.as_ref().map(|(job, ending)| (job, *ending)),
            queue: &self.queue,
            is_state: self.is_state,
            supersede: self.supersede,
            cadence: &self.cadence,
            usage: self.usage,
            paused: self.paused,
            now: self.now,
        }
    }

    fn decide(&self) -> Action {
        decide(&self.view())
    }

    /// Returns a target of states, at a distance of 100 slots from each other, of which that of
    /// slot 1000 is on disk.
    fn of_states(pairs: Vec<Pair>) -> Self {
        let cadence = Cadence { min_slots: 100, ..Cadence::default() };
        let usage = Usage { newest: Some(1000), ..Usage::default() };
        Self { is_state: true, done: Some(1000), cadence, usage, ..Self::new(pairs) }
    }

    /// Does what is decided until there is nothing left, and gives all of it.
    fn settle(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        let steps_max = self.queue.len() + 3;
        loop {
            let action = self.decide();
            match &action {
                Action::Drop { job, .. } => self.queue.retain(|queued| queued.id != *job),
                Action::Supersede(id) => {
                    let (job, ending) = self.running.as_mut().unwrap();
                    assert_eq!((job.id, *ending), (*id, false));
                    *ending = true;
                }
                Action::Queue(pair) => {
                    self.queue.push(job(self.next_id, pair.clone(), Origin::Found));
                    self.next_id += 1;
                }
                Action::Start(id) => {
                    assert!(self.running.is_none() && !self.paused);
                    let index = self.queue.iter().position(|job| job.id == *id).unwrap();
                    let job = self.queue.remove(index);
                    assert!(job.is_due(self.now));
                    self.running = Some((job, false));
                }
                Action::Wait(_) => return actions,
            }
            actions.push(action);
            assert!(actions.len() <= steps_max, "{actions:?}");
        }
    }
}

#[test]
fn the_newest_pair_is_queued_and_started() {
    let mut model = Model::new(vec![pair(100, 150), full(100)]);
    assert_eq!(model.settle(), [Action::Queue(pair(100, 150)), Action::Start(1000)]);
    assert_eq!(model.settle(), []);
    model.running = None;
    model.done = Some(150);
    assert_eq!(model.settle(), []);
}

#[test]
fn a_newer_pair_supersedes_what_was_found_and_nothing_else() {
    let running = job(1, full(100), Origin::Found);
    let mut model = Model::new(vec![full(200)]);
    model.running = Some((running, false));
    let actions = model.settle();
    assert_eq!(actions, [Action::Supersede(1), Action::Queue(full(200))]);

    let mut patient = Model::new(vec![full(200)]);
    patient.supersede = false;
    patient.running = Some((job(1, full(100), Origin::Found), false));
    assert_eq!(patient.settle(), [Action::Queue(full(200))]);
    // Something newer still takes its place in the queue.
    patient.pairs = vec![full(300)];
    let dropped = Action::Drop { job: 1000, superseded: true };
    assert_eq!(patient.settle(), [dropped, Action::Queue(full(300))]);

    let mut submitted = Model::new(vec![full(200)]);
    submitted.running = Some((job(1, full(100), Origin::Submitted), false));
    assert_eq!(submitted.settle(), [Action::Queue(full(200))]);
}

#[test]
fn a_job_of_a_state_ends_before_the_next_one_is_chosen() {
    let mut model = Model::of_states(vec![full(1300)]);
    model.running = Some((job(1, full(1200), Origin::Found), false));
    // One archive after the other: none of them ends the job, and none is queued and dropped.
    assert_eq!(model.settle(), []);
    model.pairs = vec![full(1400)];
    assert_eq!(model.settle(), []);
    // It ends, and its result is so new that there is nothing to do for now.
    (model.running, model.done, model.usage.newest) = (None, Some(1200), Some(1200));
    model.pairs = vec![pair(1200, 1299)];
    assert_eq!(model.settle(), []);
    assert_eq!(held(&model.view()), Some(Hold::Slots { from: 1300 }));
    model.pairs = vec![pair(1200, 1300)];
    assert_eq!(model.settle(), [Action::Queue(pair(1200, 1300)), Action::Start(1000)]);
}

#[test]
fn what_a_client_asked_for_starts_whatever_the_cadence_says() {
    let mut model = Model::of_states(vec![full(1001)]);
    assert_eq!(model.settle(), []);
    model.queue = vec![job(1, full(1001), Origin::Requested)];
    assert_eq!(model.settle(), [Action::Start(1)]);
    // It is not dropped for newer archives while it waits.
    model.running = None;
    model.paused = true;
    model.queue = vec![job(2, full(1001), Origin::Requested)];
    model.pairs = vec![full(1002)];
    assert_eq!(model.settle(), []);
    assert_eq!(held(&model.view()), None, "a job is about to start");
}

#[test]
fn the_end_of_a_hold_is_waited_for() {
    let mut model = Model::of_states(vec![full(2000)]);
    model.cadence.windows = Window::parse_all("02:00-03:00").unwrap();
    model.usage.unix_s = 20_000 * DAY_S;
    let opens = model.now + Duration::from_hours(2);
    assert_eq!(model.decide(), Action::Wait(Some(opens)));
    assert_eq!(held(&model.view()), Some(Hold::Window { seconds: 7200 }));
    // A job that failed inside of the window is not tried again outside of it, and not dropped.
    model.queue = vec![job(1, full(2000), Origin::Found)];
    assert_eq!(model.decide(), Action::Wait(Some(opens)));
    model.usage.unix_s += 7200;
    assert_eq!(model.decide(), Action::Start(1));
}

#[test]
fn another_archive_of_the_same_slot_is_unpacked() {
    let mut model = Model::new(vec![full(100)]);
    model.done = Some(100);
    model.done_hash = Some(full(100).full().name.hash());
    assert_eq!(model.settle(), []);
    model.done_hash = Some(ArchiveHash::new([8; 32]));
    assert_eq!(model.settle(), [Action::Queue(full(100)), Action::Start(1000)]);
    // Older than what is there.
    model = Model { done: Some(101), ..Model::new(vec![full(100)]) };
    model.done_hash = Some(ArchiveHash::new([8; 32]));
    assert_eq!(model.settle(), []);
}

#[test]
fn what_is_gone_is_dropped_and_what_is_running_goes_on() {
    let mut model = Model::new(Vec::new());
    model.running = Some((job(1, full(100), Origin::Found), false));
    model.queue = vec![job(2, full(90), Origin::Found), job(3, full(80), Origin::Submitted)];
    assert_eq!(model.settle(), [Action::Drop { job: 2, superseded: false }]);
    assert_eq!(model.queue[0].id, 3);
}

#[test]
fn of_two_jobs_for_the_same_pair_one_stays() {
    let mut model = Model::new(vec![full(100)]);
    model.paused = true;
    model.queue = vec![job(1, full(100), Origin::Found), job(2, full(100), Origin::Found)];
    assert_eq!(model.settle(), [Action::Drop { job: 2, superseded: true }]);
}

#[test]
fn another_pair_serves_while_a_file_cannot_be_read() {
    let mut model = Model::new(vec![pair(100, 150), full(100)]);
    let until = model.now + Duration::from_secs(30);
    let path = pair(100, 150).incremental().unwrap().path.clone();
    model.unreadable.insert(path, RetryTimer { failures: 1, until: Some(until) });
    assert_eq!(model.settle(), [Action::Queue(full(100)), Action::Start(1000)]);
    assert_eq!(model.decide(), Action::Wait(Some(until)));
    // Its time comes, and it is newer.
    model.now = until;
    assert_eq!(model.settle(), [Action::Supersede(1000), Action::Queue(pair(100, 150))]);
}

#[test]
fn clocks_and_pauses_hold_jobs_back() {
    let mut model = Model::new(vec![full(100)]);
    let until = model.now + Duration::from_secs(30);
    let held = Job { not_before: Some(until), ..job(1, full(100), Origin::Found) };
    model.queue = vec![held];
    assert_eq!(model.decide(), Action::Wait(Some(until)));
    // A submitted job comes first.
    model.queue.push(job(2, full(50), Origin::Submitted));
    assert_eq!(model.decide(), Action::Start(2));
    model.paused = true;
    assert_eq!(model.decide(), Action::Wait(None));
    (model.paused, model.now) = (false, until);
    assert_eq!(model.decide(), Action::Start(2));
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let one = prop_oneof![
        (1_u64..9).prop_map(full),
        (1_u64..5, 5_u64..9).prop_map(|(base, slot)| pair(base, slot))
    ];
    prop::collection::vec(one, 0..5).prop_map(|mut pairs| {
        pairs.sort_by_key(|pair| std::cmp::Reverse((pair.full().name.slot(), pair.slot())));
        pairs
    })
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let one = (1_u64..9, any::<bool>(), 0_u64..3);
    prop::collection::vec(one, 0..5).prop_map(|jobs| {
        let job = |(id, (slot, found, wait)): (u64, (u64, bool, u64))| {
            let origin = if found { Origin::Found } else { Origin::Submitted };
            let not_before = (wait > 0).then(|| Instant::now() + Duration::from_secs(wait * 60));
            Job { not_before, ..job(id, full(slot), origin) }
        };
        (0..).zip(jobs).map(job).collect()
    })
}

proptest! {
    #[test]
    fn it_always_settles_with_the_newest_pair_in_hand(
        pairs in pairs(),
        queue in jobs(),
        running in prop::option::of((1_u64..9, any::<bool>(), any::<bool>())),
        done in prop::option::of(0_u64..9),
        supersede: bool,
        paused: bool,
    ) {
        let mut model = Model::new(pairs);
        (model.queue, model.done, model.supersede, model.paused) = (queue, done, supersede, paused);
        model.running = running.map(|(slot, found, ending)| {
            let origin = if found { Origin::Found } else { Origin::Submitted };
            (job(500, full(slot), origin), ending)
        });
        let submitted = |model: &Model| {
            let running = model.running.iter().map(|(job, _)| job);
            running.chain(&model.queue).filter(|job| job.origin == Origin::Submitted).count()
        };
        let before = submitted(&model);
        model.settle();
        // `settle` checks that it comes to an end, and that nothing is started that must not be.
        prop_assert_eq!(submitted(&model), before, "what was submitted is not lost");
        let found = model.queue.iter().filter(|job| job.origin == Origin::Found).count();
        prop_assert!(found <= 1);
        if let Some(best) = model.pairs.first().filter(|best| Some(best.slot()) > model.done) {
            let in_hand = |job: &Job| same_archives(&job.pair, best);
            let running = model.running.as_ref();
            let running = running.is_some_and(|(job, ending)| {
                !ending && (in_hand(job) || job.slot() >= best.slot())
            });
            prop_assert!(running || model.queue.iter().any(in_hand));
        }
    }
}

#[test]
fn refused_archives_give_way_to_the_next_best_and_to_nothing_older_than_what_is_there() {
    let mut model = Model::new(vec![full(7), full(5)]);
    model.queue = vec![job(1, full(7), Origin::Found)];
    model.refused = vec![full(7)];
    assert_eq!(model.decide(), Action::Drop { job: 1, superseded: false });
    model.queue.clear();
    assert_eq!(model.decide(), Action::Queue(full(5)));
    model.done = Some(5);
    assert_eq!(model.decide(), Action::Wait(None));
    model.refused = vec![full(7), full(5)];
    model.done = None;
    assert_eq!(model.decide(), Action::Wait(None));
}
