//! The laws of `shardwise_tests::reliability`, on random inputs.
//!
//! `RELIABILITY_INPUTS=1000000` tries so many inputs instead of the same few thousand;
//! `RELIABILITY_FIRST` is the number of the first, so that a run can be continued or one input be
//! repeated; `RELIABILITY_LAWS=format,print` tries these laws alone.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its counts are printed")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope, sleep};
use std::time::{Duration, Instant};

use shardwise_tests::reliability::{Fault, Law, Slowest, Tally, laws, try_all};

/// How many inputs are tried in every run: a minute or two.
const INPUTS: u64 = 6000;

/// An input that takes longer is a fault; one that has no end must not keep the run.
const LONGEST: Duration = Duration::from_secs(120);

/// The inputs that are tried, and what became of them.
struct Run {
    laws: Vec<Law>,
    tallies: Vec<Tally>,
    started: Instant,
    next: AtomicU64,
    end: u64,
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

impl Run {
    fn new(first: u64) -> Self {
        let chosen = std::env::var("RELIABILITY_LAWS").ok();
        let is_chosen = |law: &Law| {
            chosen.as_ref().is_none_or(|names| names.split(',').any(|name| name == law.name))
        };
        let laws: Vec<Law> = laws().into_iter().filter(is_chosen).collect();
        assert!(!laws.is_empty(), "RELIABILITY_LAWS names no law");
        let tallies = laws.iter().map(|_| Tally::default()).collect();
        let end = first + number("RELIABILITY_INPUTS").unwrap_or(INPUTS);
        Self { laws, tallies, started: Instant::now(), next: AtomicU64::new(first), end }
    }

    /// The next number, if there is one.
    fn draw(&self) -> Option<u64> {
        let drawn = self.next.fetch_add(1, Ordering::Relaxed);
        (drawn < self.end).then_some(drawn)
    }

    /// Tries inputs until there are no more, and notes what it is busy with.
    fn work(&self, busy: &Mutex<Option<(u64, Instant)>>) -> (Vec<Fault>, Vec<Slowest>) {
        let (mut faults, mut slowest) = (Vec::new(), Vec::new());
        let note = |what| *busy.lock().expect("nobody panics with it") = what;
        while let Some(number) = self.draw() {
            note(Some((number, Instant::now())));
            let (fault, slow) = try_all(&self.laws, &self.tallies, number);
            if let Some(fault) = fault {
                eprintln!("{} of {}: {}\n{}", fault.law, fault.input, fault.message, fault.text);
                faults.push(fault);
            }
            slowest.extend(slow);
            slowest.sort_by(|a, b| b.cmp(a));
            slowest.truncate(3);
        }
        note(None);
        (faults, slowest)
    }

    fn print(&self, first: u64) {
        let tried = self.end - first;
        println!("{tried} inputs in {:.0} s", self.started.elapsed().as_secs_f64());
        for (law, tally) in self.laws.iter().zip(&self.tallies) {
            let [held, skipped] =
                [&tally.held, &tally.skipped].map(|count| count.load(Ordering::Relaxed));
            println!("| {} | {} | {held} | {skipped} |", law.name, law.says);
            assert!(held > 0 || tried < INPUTS, "no input says anything about {}", law.name);
        }
    }
}

#[test]
fn every_law_holds_of_every_input() {
    let first = number("RELIABILITY_FIRST").unwrap_or(0);
    let run = Run::new(first);
    let threads = available_parallelism().map_or(1, usize::from);
    let busy: Vec<Mutex<Option<(u64, Instant)>>> = (0..threads).map(|_| Mutex::default()).collect();
    let results: Vec<(Vec<Fault>, Vec<Slowest>)> = scope(|scope| {
        let spawned: Vec<_> = busy.iter().map(|busy| scope.spawn(|| run.work(busy))).collect();
        while !spawned.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            sleep(Duration::from_millis(200));
            for busy in &busy {
                if let Some((number, since)) = *busy.lock().expect("nobody panics with it")
                    && since.elapsed() > LONGEST
                {
                    eprintln!("input {number} takes longer than {LONGEST:?}");
                    std::process::exit(1);
                }
            }
        }
        spawned.into_iter().map(|thread| thread.join().expect("panics are caught")).collect()
    });
    run.print(first);
    let (faults, slowest): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    println!("slowest: {:?}", slowest.concat());
    let faults: Vec<Fault> = faults.into_iter().flatten().collect();
    assert!(faults.is_empty(), "{} faults", faults.len());
}
