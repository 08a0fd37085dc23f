//! Asking many servers for their archives, at the same time and within bounds.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    Address, FetchError, FetchOptions, Identity, Remote,
    remote::{Answered, HEAD, answered},
};

/// Interval at which the end of a survey is looked for.
const CHECK: Duration = Duration::from_millis(50);

/// What a server says of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The archive's own address, after all redirects.
    pub address: Address,
    /// The options for it: without headers if it is on another host.
    pub options: FetchOptions,
    /// What must stay the same while the archive is fetched.
    pub identity: Identity,
    /// Whether the server answers ranges.
    pub has_ranges: bool,
    /// Time for a connection, without TLS's own round trips.
    pub connected_in: Duration,
    /// Time from a request to the head of its answer.
    pub answered_in: Duration,
}

/// Bounds of a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Most servers that are asked at the same time.
    pub at_once: usize,
    /// Longest time for each question.
    pub each: Duration,
    /// Longest time for all of them.
    pub all: Duration,
}

impl Default for Survey {
    fn default() -> Self {
        // Guesses: a server that takes longer to answer is no good source.
        Self { at_once: 32, each: Duration::from_secs(8), all: Duration::from_mins(1) }
    }
}

impl Remote {
    /// Asks a server for an archive, and reads nothing but the head of its answer.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn look(
        address: &Address,
        options: &FetchOptions,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Look, FetchError> {
        let Answered { site, body, connecting, answering, .. } =
            answered(address, options, HEAD, cancelled)?;
        let mut options = options.clone();
        if site.headers.is_empty() {
            options.headers.clear();
        }
        Ok(Look {
            address: site.address,
            options,
            has_ranges: body.is_part(),
            identity: body.identity,
            connected_in: connecting,
            answered_in: answering,
        })
    }
}

impl Survey {
    /// Calls `ask` for each of the questions, some at the same time, on threads of their own. `ask` is
    /// given the question and a function that returns whether its time is over. Returns the answers in
    /// the order of the questions; `None` for those that did not come in time.
    ///
    /// A thread that a name server holds up is left behind. There are no more of them than servers
    /// that are asked at the same time.
    pub fn ask<Q, A>(
        &self,
        questions: Vec<Q>,
        ask: impl Fn(Q, &dyn Fn() -> bool) -> A + Send + Sync + 'static,
        cancelled: &dyn Fn() -> bool,
    ) -> Vec<Option<A>>
    where
        Q: Send + 'static,
        A: Send + 'static,
    {
        let mut answers: Vec<Option<A>> = questions.iter().map(|_| None).collect();
        let threads = self.at_once.clamp(1, answers.len().max(1));
        let queue =
            Arc::new(Mutex::new(questions.into_iter().enumerate().collect::<VecDeque<_>>()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (ask, each) = (Arc::new(ask), self.each);
        let (tell, told) = channel();
        for _ in 0..threads {
            let (queue, is_over) = (Arc::clone(&queue), Arc::clone(&is_over));
            let (ask, tell) = (Arc::clone(&ask), tell.clone());
            let work = move || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some((index, question)) = next else { return };
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let started = Instant::now();
                    let late = || is_over.load(Ordering::Relaxed) || started.elapsed() > each;
                    let answer = ask(question, &late);
                    if tell.send((index, answer)).is_err() {
                        return;
                    }
                }
            };
            // With fewer threads it takes longer.
            if thread::Builder::new().name("unsnap-ask".to_owned()).spawn(work).is_err() {
                break;
            }
        }
        drop(tell);
        let started = Instant::now();
        while !cancelled() && started.elapsed() < self.all {
            match told.recv_timeout(CHECK) {
                Ok((index, answer)) => answers[index] = Some(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        is_over.store(true, Ordering::Relaxed);
        answers
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn answers_come_in_order_and_only_some_are_asked_at_once() {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (of_ask, most_of_ask) = (Arc::clone(&running), Arc::clone(&most));
        let survey = Survey { at_once: 3, ..Survey::default() };
        let ask = move |question: usize, _: &dyn Fn() -> bool| {
            let now = of_ask.fetch_add(1, Ordering::SeqCst) + 1;
            most_of_ask.fetch_max(now, Ordering::SeqCst);
            thread::yield_now();
            of_ask.fetch_sub(1, Ordering::SeqCst);
            question * 2
        };
        let answers = survey.ask((0..100).collect(), ask, &|| false);
        assert_eq!(answers, (0..100).map(|answer| Some(answer * 2)).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert!(survey.ask(Vec::<u8>::new(), |_, _| (), &|| false).is_empty());
    }

    #[test]
    fn who_does_not_answer_holds_nobody_up() {
        let survey = Survey { at_once: 2, each: Duration::ZERO, ..Survey::default() };
        let ask = |question: u8, late: &dyn Fn() -> bool| {
            while question == 1 && !late() {
                thread::yield_now();
            }
            question
        };
        let answers = survey.ask(vec![0, 1, 2], ask, &|| false);
        assert_eq!(answers, [Some(0), Some(1), Some(2)], "each has its time");
        // All together have theirs, and a caller may stop.
        let silent = |question: u8, late: &dyn Fn() -> bool| {
            while question == 1 && !late() {
                thread::yield_now();
            }
        };
        let survey = Survey { each: Duration::MAX, all: Duration::ZERO, ..survey };
        assert_eq!(survey.ask(vec![1], silent, &|| false), [None]);
        let survey = Survey { all: Duration::MAX, ..survey };
        assert_eq!(survey.ask(vec![1], silent, &|| true), [None]);
    }
}
