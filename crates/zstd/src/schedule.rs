//! Who does what next: a plain state machine, under the lock that all threads share.
//!
//! There are no fixed roles. A thread takes the most urgent step that can be taken: executing the
//! chunk that is next in the stream, if nobody executes; else decoding the first stage of a chunk
//! that was read; else reading a chunk, if nobody reads and a slot is free. The two tokens, `input`
//! and `output`, are the things that only one thread can use at a time. The number of slots bounds
//! the memory. The chunk that is next in the stream always has a slot, so a thread that waits, waits
//! for a step that another one is taking.

use std::collections::{BTreeMap, VecDeque};

/// Steps not taken yet, and what they need.
pub(crate) struct Schedule<I, O, S, C, P> {
    input: Option<I>,
    input_ended: bool,
    output: Option<O>,
    /// Free slots.
    slots: Vec<S>,
    /// Chunks that were read, with their numbers.
    read: VecDeque<(u64, C)>,
    /// Chunks whose first stage is complete.
    parsed: BTreeMap<u64, P>,
    next_read: u64,
    next_executed: u64,
    stopped: bool,
}

/// A step to take.
pub(crate) enum Step<I, O, S, C, P> {
    /// Read a chunk into the slot, and return both.
    Read(I, S),
    /// Decode the first stage of the chunk with this number.
    Parse(u64, C),
    /// Decode the second stage of the chunk.
    Execute(O, P),
    /// Wait until another thread has taken a step.
    Wait,
    /// Nothing is left to do.
    Stop,
}

impl<I, O, S, C, P> Schedule<I, O, S, C, P> {
    pub fn new(input: I, output: O, slots: Vec<S>) -> Self {
        Self {
            input: Some(input),
            input_ended: false,
            output: Some(output),
            slots,
            read: VecDeque::new(),
            parsed: BTreeMap::new(),
            next_read: 0,
            next_executed: 0,
            stopped: false,
        }
    }

    /// Returns the most urgent step.
    pub fn next(&mut self) -> Step<I, O, S, C, P> {
        if self.stopped || (self.input_ended && self.next_executed == self.next_read) {
            return Step::Stop;
        }
        if self.output.is_some()
            && let Some(chunk) = self.parsed.remove(&self.next_executed)
            && let Some(output) = self.output.take()
        {
            return Step::Execute(output, chunk);
        }
        if let Some((number, chunk)) = self.read.pop_front() {
            return Step::Parse(number, chunk);
        }
        if !self.input_ended
            && self.input.is_some()
            && let Some(slot) = self.slots.pop()
            && let Some(input) = self.input.take()
        {
            return Step::Read(input, slot);
        }
        Step::Wait
    }

    /// Returns the input with the chunk that was read.
    pub fn was_read(&mut self, input: I, chunk: C) {
        self.input = Some(input);
        self.read.push_back((self.next_read, chunk));
        self.next_read += 1;
    }

    /// Returns the input, which has ended.
    pub fn ended(&mut self, input: I) {
        self.input = Some(input);
        self.input_ended = true;
    }

    /// Returns a chunk whose first stage is complete.
    pub fn was_parsed(&mut self, number: u64, chunk: P) {
        self.parsed.insert(number, chunk);
    }

    /// Returns the output and the slot of the chunk that was executed.
    pub fn was_executed(&mut self, output: O, slot: S) {
        self.output = Some(output);
        self.slots.push(slot);
        self.next_executed += 1;
    }

    /// Ends everything: threads that ask for a step are told to stop.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Takes both tokens, when all threads have stopped. One that is lost is `None`.
    pub fn take(&mut self) -> (Option<I>, Option<O>) {
        (self.input.take(), self.output.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from a seed, for orders of threads.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % bound
        }
    }

    type Steps = Schedule<u64, Vec<u64>, (), u64, u64>;
    type Taken = Step<u64, Vec<u64>, (), u64, u64>;

    /// Takes `chunks` chunks through all steps by simulated threads, of which a random one moves
    /// next: it asks for a step, or completes the one that it has taken.
    fn simulate(threads: usize, slots: usize, chunks: u64, seed: u64) -> Vec<u64> {
        let mut random = Random(seed);
        let mut schedule = Steps::new(0, Vec::new(), vec![(); slots]);
        let mut taken: Vec<Option<Taken>> = (0..threads).map(|_| None).collect();
        let mut stopped = vec![false; threads];
        while stopped.iter().any(|stopped| !stopped) {
            let thread = random.below(threads);
            match taken[thread].take() {
                _ if stopped[thread] => {}
                None => match schedule.next() {
                    Step::Wait => {
                        let busy = taken.iter().any(Option::is_some);
                        assert!(busy, "all threads wait: seed {seed}");
                    }
                    Step::Stop => stopped[thread] = true,
                    step => taken[thread] = Some(step),
                },
                Some(Step::Read(read, ())) if read == chunks => schedule.ended(read),
                Some(Step::Read(read, ())) => schedule.was_read(read + 1, read),
                Some(Step::Parse(number, chunk)) => schedule.was_parsed(number, chunk),
                Some(Step::Execute(mut output, chunk)) => {
                    output.push(chunk);
                    schedule.was_executed(output, ());
                }
                Some(Step::Wait | Step::Stop) => unreachable!("not taken"),
            }
        }
        schedule.take().1.unwrap()
    }

    #[test]
    fn every_order_of_threads_executes_all_chunks_in_order() {
        for seed in 0..2000_u64 {
            let mut random = Random(!seed);
            let (threads, slots) = (1 + random.below(5), 1 + random.below(7));
            let chunks = seed % 23;
            let executed = simulate(threads, slots, chunks, seed);
            assert_eq!(executed, (0..chunks).collect::<Vec<_>>(), "seed {seed}");
        }
    }

    #[test]
    fn no_thread_begins_a_step_after_a_stop() {
        let mut schedule = Steps::new(0, Vec::new(), vec![(), ()]);
        let Step::Read(input, ()) = schedule.next() else { panic!("the first step") };
        assert!(matches!(schedule.next(), Step::Wait));
        schedule.was_read(input, 0);
        schedule.stop();
        assert!(matches!(schedule.next(), Step::Stop));
    }
}
