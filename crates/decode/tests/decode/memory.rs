//! Tests that the smallest memory is enough and is returned completely when decoding is aborted.

use std::{collections::VecDeque, sync::mpsc, thread, time::Duration};

use unsnap_arena::{Arena, OpenSegment};
use unsnap_decode::{MemoryPlan, Tuning};
use unsnap_testkit::{
    compress::{lz4_frames, zstd_frames, zstd_mixed, zstd_one_frame, zstd_raw_blocks},
    random::Random,
};

use crate::support::{Running, Setup, assert_same, content, shapes, snapshot, watched};

const THREADS: [usize; 3] = [1, 2, 8];

/// Returns a setup with the smallest budget and the default size of reads.
fn smallest(threads: usize) -> Setup {
    let budget = MemoryPlan::budget_min();
    let plan = MemoryPlan::new(budget, threads, &[], &Setup::new(1).limits, Tuning::default());
    Setup { budget, chunk_bytes: plan.read_bytes / 8 / 4096 * 4096, ..Setup::new(threads) }
}

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(len as u64).fill(&mut bytes);
    bytes
}

#[test]
fn the_smallest_budget_is_enough_for_every_shape() {
    watched(|| {
        for shape in shapes(2_000_000) {
            for threads in THREADS {
                for setup in smallest(threads).both() {
                    let outcome = setup.decode(&shape.archive);
                    assert!(outcome.result.is_ok(), "{}: {:?}", shape.name, outcome.result);
                    outcome.expect(&shape.raw);
                }
            }
        }
    });
}

#[test]
fn the_smallest_budget_is_enough_for_incompressible_data() {
    watched(|| {
        let raw = noise(3_000_000);
        let mut archives: Vec<Vec<u8>> =
            [1000, 20_000, 100_000, 120_000, 130_000, 200_000, 400_000]
                .map(|frame_bytes| zstd_frames(&raw, frame_bytes, 1))
                .into();
        archives.push(zstd_one_frame(&raw, 1, None, true, true));
        archives.push(lz4_frames(&raw, 70_000));
        archives.push(
            (0..30)
                .flat_map(|at| {
                    // Odd lengths, alternately for the workers and the streaming engine.
                    let piece = &raw[at * 100_000..(at + 1) * 100_000];
                    let (sized, streamed) = piece.split_at(30_000 + 1717 * at);
                    [
                        zstd_one_frame(sized, 1, None, false, true),
                        zstd_one_frame(streamed, 1, Some(16), false, false),
                    ]
                    .concat()
                })
                .collect(),
        );
        for archive in &archives {
            for threads in THREADS {
                for setup in smallest(threads).both() {
                    setup.decode(archive).expect(&raw);
                }
            }
        }
    });
}

#[test]
fn frames_that_are_all_headers_cannot_starve_the_planner() {
    watched(|| {
        // 60 KiB of empty blocks in each frame, which declares to be empty: data that decodes to
        // nothing still occupies the read buffer.
        let empty_block = [0, 0, 0];
        let last_block = [1, 0, 0];
        let header = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00];
        let frame = [&header[..], &empty_block.repeat(20_000), &last_block].concat();
        let end = zstd_one_frame(b"end", 1, None, false, true);
        for frames in [1, 2, 3, 5, 40] {
            let archive = [frame.repeat(frames), end.clone()].concat();
            for threads in THREADS {
                for setup in smallest(threads).both() {
                    setup.decode(&archive).expect(b"end");
                }
            }
        }
    });
}

#[test]
fn a_consumer_that_holds_segments_for_a_while_only_slows_decoding() {
    watched(|| {
        let raw = content(4_000_000);
        for seed in 0..12 {
            let mut random = Random::new(seed);
            let archive = if random.chance(30) {
                zstd_one_frame(&raw, 1, Some(15), false, false)
            } else {
                zstd_mixed(&raw, seed)
            };
            // Between the smallest budget and one where three segments just fit.
            let budget = MemoryPlan::budget_min() + 4096 * random.index(300);
            for threads in THREADS {
                let setup = Setup { budget, ..smallest(threads) };
                let setup = random.pick(&setup.both()).clone();
                let Running { mut decoded, .. } = setup.start(&archive);
                let (give, held) = mpsc::channel();
                let most = 1 + random.index(6);
                let holder = thread::spawn(move || {
                    // Like writers, which drop their segments later and not in order.
                    let mut holding = VecDeque::new();
                    loop {
                        match held.recv_timeout(Duration::from_millis(1)) {
                            Ok(segment) if holding.len() < most => holding.push_back(segment),
                            Ok(segment) => {
                                holding.rotate_left(1);
                                holding.pop_front();
                                holding.push_back(segment);
                            }
                            Err(mpsc::RecvTimeoutError::Timeout) => drop(holding.pop_back()),
                            Err(mpsc::RecvTimeoutError::Disconnected) => return,
                        }
                    }
                });
                let mut bytes = Vec::new();
                while let Some(piece) = decoded.next().unwrap() {
                    bytes.extend_from_slice(piece.segment.bytes());
                    give.send(piece.segment).unwrap();
                }
                drop(give);
                assert_same(&bytes, &raw);
                holder.join().unwrap();
                decoded.join();
            }
        }
    });
}

#[test]
fn a_filled_segment_is_sent_before_waiting_for_memory() {
    watched(|| {
        const SEGMENT_BYTES: usize = 100_000;
        let raw = snapshot(2_000_000);
        let archives = [
            zstd_one_frame(&raw, 1, Some(15), false, false),
            zstd_one_frame(&raw, 1, None, false, false),
            lz4_frames(&raw, 300_000),
            raw.clone(),
        ];
        for archive in archives {
            // Room for three segments, of which the consumer keeps the last two.
            let three = 3 * OpenSegment::footprint(SEGMENT_BYTES);
            let memory = |plan: &MemoryPlan| {
                let bytes = plan.read_bytes + three;
                let mut arena = Arena::builder().bytes(bytes).populate(false).build().unwrap();
                (arena.pool(plan.read_bytes).unwrap(), arena.pool(three).unwrap())
            };
            for setup in Setup::new(1).segments(SEGMENT_BYTES).both() {
                let mut decoded = setup.start_with(&archive, memory).decoded;
                let mut kept = VecDeque::new();
                let mut bytes = Vec::new();
                while let Some(piece) = decoded.next().unwrap() {
                    bytes.extend_from_slice(piece.segment.bytes());
                    kept.push_back(piece);
                    if kept.len() > 2 {
                        kept.pop_front();
                    }
                }
                assert_same(&bytes, &raw);
                decoded.join();
            }
        }
    });
}

#[test]
fn decoding_can_be_aborted_at_any_moment() {
    watched(|| {
        let mut random = Random::new(5);
        for shape in shapes(3_000_000) {
            for threads in THREADS {
                for moment in 0..10 {
                    let segment_bytes = *random.pick(&[None, Some(30_000)]);
                    let setup = Setup { segment_bytes, ..Setup::new(threads) };
                    let setup = random.pick(&setup.both()).clone();
                    let Running { mut decoded, read, segments, .. } = setup.start(&shape.archive);
                    for _ in 0..random.index(10) {
                        if decoded.next().unwrap().is_none() {
                            break;
                        }
                    }
                    if moment % 2 == 0 {
                        read.close();
                        segments.close();
                        decoded.join();
                    } else {
                        // Without notice: the threads detect it themselves.
                        drop(decoded);
                        let bytes = segments.bytes();
                        segments.allocate(bytes).unwrap();
                        let bytes = read.bytes();
                        read.allocate(bytes).unwrap();
                    }
                }
            }
        }
    });
}

#[test]
fn closing_the_pools_ends_a_decoder_that_waits_for_memory() {
    watched(|| {
        let raw = snapshot(3_000_000);
        for archive in [zstd_raw_blocks(&raw, 10_000), zstd_frames(&raw, 50_000, 1), raw.clone()] {
            for setup in THREADS.into_iter().flat_map(|threads| smallest(threads).both()) {
                let Running { mut decoded, read, segments, .. } = setup.start(&archive);
                let mut held = Vec::new();
                let closer = {
                    let (read, segments) = (read.clone(), segments.clone());
                    thread::spawn(move || {
                        thread::sleep(Duration::from_millis(3));
                        read.close();
                        segments.close();
                    })
                };
                // A consumer that never drops its segments.
                while let Ok(Some(piece)) = decoded.next() {
                    held.push(piece);
                }
                closer.join().unwrap();
                decoded.join();
            }
        }
    });
}

#[test]
fn a_refused_archive_leaves_no_thread_behind() {
    watched(|| {
        for threads in THREADS {
            let Running { mut decoded, read, segments, .. } =
                Setup::new(threads).start(b"no archive");
            assert!(decoded.next().is_err());
            let times = decoded.join();
            assert!(times.iter().all(|times| times.total >= times.busy()));
            read.try_allocate(read.bytes()).unwrap();
            segments.try_allocate(segments.bytes()).unwrap();
        }
    });
}
