//! Solves an instance of the contest on intra-operator parallelism (ASPLOS 2025) with the generic
//! solver:
//! `cargo run --release -p shardwise-passes --example iopddl FILE [--seconds N]`.
//!
//! The instances are at <https://github.com/google/iopddl>; `FILE` is one of them, decompressed.

mod instance;

use std::io::Write;
use std::time::{Duration, Instant};

use shardwise_passes::solver::{Interrupt, Limits, Weight, minimize};

use crate::instance::Instance;

fn main() -> Result<(), String> {
    let (path, seconds) = arguments()?;
    let text = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let instance = Instance::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    let start = Instant::now();
    let interrupt = Interrupt::at(start + Duration::from_secs(seconds));
    let limits = Limits { interrupt, capacity: usize::MAX, ..Limits::default() };
    let solution = minimize(&instance.model(), &limits);
    let took = start.elapsed();
    let value = solution.assignment.map(|chosen| instance.evaluate(&chosen)).transpose()?;
    let report = report(&instance, value, solution.bound, took);
    writeln!(std::io::stdout(), "{report}").map_err(|error| error.to_string())
}

fn arguments() -> Result<(String, u64), String> {
    let usage = || "usage: iopddl FILE [--seconds N]".to_owned();
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(usage)?;
    let seconds = match arguments.next().as_deref() {
        None => 300,
        Some("--seconds") => {
            arguments.next().and_then(|number| number.parse().ok()).ok_or_else(usage)?
        }
        Some(_) => return Err(usage()),
    };
    Ok((path, seconds))
}

/// The value as evaluated on the instance, the bound rounded up to a whole number, the gap between
/// them, and the time.
fn report(instance: &Instance, value: Option<i128>, bound: Weight, took: Duration) -> String {
    let bound = (bound.femtoseconds() - 1e-3).ceil();
    match value {
        Some(value) => {
            let gap = (value as f64 - bound).max(0.0) / (value as f64).max(1.0);
            let (gap, took, name) = (gap * 100.0, took.as_secs_f64(), instance.name());
            format!("{name}: value {value}, bound {bound}, gap {gap:.4}%, {took:.1} s")
        }
        None if bound.is_infinite() => format!("{}: infeasible", instance.name()),
        None => format!("{}: no solution found, bound {bound}", instance.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &[u8] = include_bytes!("small.json");

    /// The least cost of all combinations of strategies.
    fn by_enumeration(instance: &Instance, chosen: &mut Vec<usize>) -> Option<i128> {
        let Some(&strategies) = instance.strategies().get(chosen.len()) else {
            return instance.evaluate(chosen).ok();
        };
        let with = |strategy| {
            chosen.push(strategy);
            let least = by_enumeration(instance, chosen);
            chosen.pop();
            least
        };
        (0..strategies).filter_map(with).min()
    }

    #[test]
    fn the_minimum_is_that_of_enumeration_at_every_limit() {
        let mut instance = Instance::parse(SMALL).unwrap();
        let mut values = Vec::new();
        for limit in (0..60).rev() {
            instance.limit_usage(limit);
            let solution = minimize(&instance.model(), &Limits::default());
            let value = solution.assignment.map(|chosen| instance.evaluate(&chosen).unwrap());
            assert_eq!(value, by_enumeration(&instance, &mut Vec::new()), "limit {limit}");
            let least =
                value.map_or(Weight::INFINITE, |value| Weight::from_femtoseconds(value as u64));
            assert_eq!(solution.bound, least, "limit {limit}");
            values.push(value);
        }
        values.dedup();
        assert!(values.len() >= 4 && values.last() == Some(&None), "limits bind: {values:?}");
    }

    #[test]
    fn a_file_with_a_missing_cost_is_refused() {
        let text = std::str::from_utf8(SMALL).unwrap();
        let text = text.replacen("\n        [0, 1],", "\n        [0, 1, 2],", 1);
        assert!(Instance::parse(text.as_bytes()).is_err());
    }
}
