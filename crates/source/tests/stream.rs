//! Tests of the stream reader on pipes.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    io::{PipeWriter, Write, pipe},
    sync::mpsc,
    thread,
    time::Duration,
};

use unsnap_arena::{Arena, Pool};
use unsnap_source::{Source, SourceError, StreamReader};
use unsnap_testkit::random::Random;

const MIB: usize = 1 << 20;

fn pool(bytes: usize) -> Pool {
    Arena::builder().bytes(bytes).populate(false).build().unwrap().pool(bytes).unwrap()
}

fn random_bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(len as u64).fill(&mut bytes);
    bytes
}

/// Returns a reader of the bytes that `writer` writes on another thread until it returns.
fn stream(pool: &Pool, writer: impl FnOnce(PipeWriter) + Send + 'static) -> StreamReader {
    let (read, write) = pipe().unwrap();
    thread::spawn(move || writer(write));
    StreamReader::new(read.into(), "the pipe", pool.clone())
}

fn read_all(reader: &mut StreamReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(span) = reader.next_span().unwrap() {
        assert_eq!(span.offset, bytes.len() as u64);
        assert!(!span.bytes.is_empty());
        bytes.extend_from_slice(&span.bytes);
    }
    assert!(reader.next_span().unwrap().is_none(), "the end stays the end");
    bytes
}

/// Runs `body` and fails if it hangs.
fn watched(body: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let body = thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_mins(2)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => body.join().unwrap(),
    }
}

#[test]
fn streams_of_every_length_come_back() {
    watched(|| {
        for pool_bytes in [4096, 64 << 10, 8 * MIB] {
            for len in [0, 1, 4095, 4096, 4097, 70_000, MIB - 1, MIB, MIB + 1, 20 * MIB + 3] {
                let bytes = random_bytes(len);
                let written = bytes.clone();
                let pool = pool(pool_bytes);
                let mut reader = stream(&pool, move |mut pipe| pipe.write_all(&written).unwrap());
                assert_eq!(reader.len(), None);
                assert!(!reader.is_empty(), "the length of a stream is unknown");
                assert!(read_all(&mut reader) == bytes, "{len} bytes, pool of {pool_bytes}");
                assert!(pool.try_allocate(pool_bytes).is_some());
            }
        }
    });
}

#[test]
fn writers_may_be_slow_and_write_odd_pieces() {
    watched(|| {
        let bytes = random_bytes(300_000);
        let written = bytes.clone();
        let mut reader = stream(&pool(64 << 10), move |mut pipe| {
            let mut random = Random::new(1);
            let mut rest = &written[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at((1 + random.index(9000)).min(rest.len()));
                pipe.write_all(piece).unwrap();
                rest = after;
                if random.chance(30) {
                    thread::sleep(Duration::from_millis(2));
                }
            }
        });
        assert!(read_all(&mut reader) == bytes);
        assert!(reader.waited() > Duration::ZERO);
    });
}

#[test]
fn a_silent_writer_does_not_delay_a_cancellation() {
    watched(|| {
        for written in [&b""[..], b"a beginning"] {
            let pool = pool(MIB);
            let (hold, held) = mpsc::channel::<()>();
            let mut reader = stream(&pool, move |mut pipe| {
                pipe.write_all(written).unwrap();
                let _ = held.recv();
            });
            let closer = thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                pool.close();
            });
            let error = reader.next_span().unwrap_err();
            assert!(matches!(error, SourceError::Cancelled), "{error}");
            closer.join().unwrap();
            drop(hold);
        }
    });
}

/// As many bytes as the pool holds are read before they are asked for.
#[test]
fn a_writer_need_not_wait_for_the_decoder() {
    watched(|| {
        let bytes = random_bytes(5 * MIB);
        let (written, pool) = (bytes.clone(), pool(8 * MIB));
        let (done, all_written) = mpsc::channel();
        let mut reader = stream(&pool, move |mut pipe| {
            pipe.write_all(&written).unwrap();
            done.send(()).unwrap();
        });
        let first = reader.next_span().unwrap().unwrap();
        // A pipe holds 64 KiB. Nothing else is asked for.
        all_written.recv().unwrap();
        assert_eq!(first.bytes[..], bytes[..first.bytes.len()]);
        let mut rest = Vec::new();
        while let Some(span) = reader.next_span().unwrap() {
            rest.extend_from_slice(&span.bytes);
        }
        assert!(rest == bytes[first.bytes.len()..]);
    });
}

#[test]
fn a_dropped_reader_returns_its_memory_although_the_writer_is_silent() {
    watched(|| {
        let pool = pool(4 * MIB);
        let (hold, held) = mpsc::channel::<()>();
        let mut reader = stream(&pool, move |mut pipe| {
            pipe.write_all(&vec![1; MIB]).unwrap();
            let _ = held.recv();
        });
        drop(reader.next_span().unwrap().unwrap());
        drop(reader);
        while pool.try_allocate(4 * MIB).is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        drop(hold);
    });
}

#[test]
fn waiting_for_memory_ends_when_the_pool_closes() {
    watched(|| {
        let pool = pool(8192);
        let mut reader = stream(&pool, |mut pipe| {
            // Fails once the reader is gone.
            let _ = pipe.write_all(&vec![1; 100_000]);
        });
        let held = [reader.next_span().unwrap().unwrap(), reader.next_span().unwrap().unwrap()];
        let closer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            pool.close();
        });
        let error = reader.next_span().unwrap_err();
        assert!(matches!(error, SourceError::Cancelled), "{error}");
        closer.join().unwrap();
        drop(held);
    });
}

#[test]
fn a_failed_read_is_reported_with_name_and_offset() {
    let directory = std::fs::File::open(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut reader = StreamReader::new(directory.into(), "no stream", pool(MIB));
    let error = reader.next_span().unwrap_err();
    assert!(matches!(error, SourceError::Read { offset: 0, .. }), "{error}");
    assert!(error.to_string().contains("no stream"), "{error}");
}
