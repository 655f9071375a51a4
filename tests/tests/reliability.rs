//! The laws of `shardwise_tests::reliability`, on random inputs.
//!
//! A target of its own, which `cargo test` leaves out and `.ci/run` runs in release for two
//! minutes. `RELIABILITY_INPUTS=1000000` tries so many inputs instead; `RELIABILITY_FIRST` is the
//! number of the first, so that a run can be continued or one input be repeated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use shardwise_tests::reliability::{Fault, Slowest, Tally, laws, try_all};

/// How long inputs are tried where no number of them is given.
const TIME: Duration = Duration::from_secs(120);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_law_holds_of_every_input() {
    let (laws, started) = (laws(), Instant::now());
    let tallies: Vec<Tally> = laws.iter().map(|_| Tally::default()).collect();
    let first = number("RELIABILITY_FIRST").unwrap_or(0);
    let end = number("RELIABILITY_INPUTS").map_or(u64::MAX, |count| first + count);
    let limit = if end == u64::MAX { TIME } else { Duration::MAX };
    let next = AtomicU64::new(first);
    let work = || {
        let (mut faults, mut slowest): (Vec<Fault>, Vec<Slowest>) = (Vec::new(), Vec::new());
        while started.elapsed() < limit {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                break;
            }
            let (fault, slow) = try_all(&laws, &tallies, number);
            if let Some(fault) = fault {
                eprintln!("{} of {}: {}\n{}", fault.law, fault.input, fault.message, fault.text);
                faults.push(fault);
            }
            slowest.extend(slow);
            slowest.sort_by(|a, b| b.cmp(a));
            slowest.truncate(5);
        }
        (faults, slowest)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<_> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        spawned.into_iter().map(|thread| thread.join().expect("panics are caught")).collect()
    });
    let tried = next.load(Ordering::Relaxed).min(end) - first;
    println!("{tried} inputs in {:.0} s", started.elapsed().as_secs_f64());
    for (law, tally) in laws.iter().zip(&tallies) {
        let (held, skipped) =
            (tally.held.load(Ordering::Relaxed), tally.skipped.load(Ordering::Relaxed));
        println!("| {} | {held} | {skipped} | {} |", law.name, law.says);
        assert!(held > 0, "no input says anything about {}", law.name);
    }
    let (faults, slowest): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    println!("slowest: {:?}", slowest.concat());
    let faults: Vec<Fault> = faults.into_iter().flatten().collect();
    assert!(faults.is_empty(), "{} faults", faults.len());
}
