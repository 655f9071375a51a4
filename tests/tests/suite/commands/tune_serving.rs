//! `tune --prefill`: deployments of both phases, against enumeration of every number of replicas
//! with times of plans.

use shardwise::Options;
use shardwise::tune::{Kind, Refused, Request, SERVING_FORMATS, Serve, Served, serve, tune};

/// A prefill of prompts of 256 tokens, and a decode step.
const PREFILL: &str = "hardware h100\ndim B=1, T=256, D=2048, F=8192\ninput x[B, T, D]\n\
    param win[D, F], wout[F, D]\noutput y[B, T, D] = gelu(x *D win) *F wout\n";
const DECODE: &str = "hardware h100\ndim B=1, D=2048, F=8192\ninput x[B, D]\n\
    param win[D, F], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";

const CHIPS: u64 = 8;
const TOKENS: u64 = 100;

fn served(first_s: Option<f64>, next_s: Option<f64>) -> Result<Served, Refused> {
    let serve_of = Serve {
        prefill: ("prefill".to_owned(), PREFILL.to_owned()),
        decode: ("decode".to_owned(), DECODE.to_owned()),
        tokens: TOKENS,
        prompts: vec![1, 2],
        sequences: vec![1, 16, 256],
        first_s,
        next_s,
    };
    serve(&serve_of, &Request::of_chips(CHIPS), &Options::default(), &|_| ())
}

/// The time of the best strategy on a replica.
fn seconds(source: &str, chips: u64, batch: u64) -> f64 {
    let source = source.replace("B=1", &format!("B={batch}"));
    let request = Request { best: 1, ..Request::of_chips(chips) };
    match tune("phase", &source, &request, &Options::default(), &|_| ()) {
        Ok(tuned) => tuned.strategies[0].objective_s,
        Err(refused) => panic!("{refused}"),
    }
}

/// The most requests a second, by trying everything.
fn by_enumeration(first_s: f64, next_s: f64) -> f64 {
    let sizes = [1, 2, 4, 8];
    let mut best = 0.0_f64;
    for (chips_p, prompts) in sizes.iter().flat_map(|&c| [1, 2].map(|b| (c, b))) {
        let time_p = seconds(PREFILL, chips_p, prompts);
        if time_p > first_s {
            continue;
        }
        for (chips_d, sequences) in sizes.iter().flat_map(|&c| [1, 16, 256].map(|b| (c, b))) {
            let time_d = seconds(DECODE, chips_d, sequences);
            let (prompts, sequences) = (prompts as f64, sequences as f64);
            for x in 1..=CHIPS / chips_p {
                for y in 1..=CHIPS / chips_d {
                    if x * chips_p + y * chips_d <= CHIPS && time_d <= next_s {
                        let prefilled = x as f64 * prompts / time_p;
                        let decoded = y as f64 * sequences / time_d / TOKENS as f64;
                        best = best.max(prefilled.min(decoded));
                    }
                }
            }
            // A replica in turn: one prefill, then as many decode steps as its prompts need.
            let steps = TOKENS as f64 * prompts / sequences;
            let turn_s = time_p + steps * time_d;
            let between_s = turn_s / steps;
            if chips_p == chips_d && between_s <= next_s {
                best = best.max((CHIPS / chips_d) as f64 * prompts / turn_s);
            }
        }
    }
    best
}

#[test]
fn the_best_deployment_is_that_of_enumeration() {
    let free = f64::INFINITY;
    let next_s = seconds(DECODE, 4, 16) * 1.001;
    let first_s = seconds(PREFILL, 4, 1) * 1.001;
    for (first, next) in [(free, free), (first_s, free), (free, next_s), (first_s, next_s)] {
        let limit = |of: f64| of.is_finite().then_some(of);
        let served = served(limit(first), limit(next)).unwrap_or_else(|no| panic!("{no}"));
        let best = &served.deployments[0];
        let other = by_enumeration(first, next);
        assert!((best.requests_per_s - other).abs() <= 1e-6 * other, "{best:?} {other}");
        assert!(served.bound_per_s >= best.requests_per_s * (1.0 - 1e-9));
        for of in &served.deployments {
            assert!(of.chips <= CHIPS && of.first_s <= first && of.next_s <= next, "{of:?}");
        }
    }
}

#[test]
fn both_kinds_are_compared_and_printed() {
    let served = served(None, None).unwrap_or_else(|no| panic!("{no}"));
    let has = |kind: Kind| served.deployments.iter().any(|of| of.kind == kind);
    assert!(has(Kind::Apart) && has(Kind::Together));
    for format in SERVING_FORMATS {
        let text = (format.write)(&served).expect("it is written");
        assert!(text.contains("together"), "{}: {text}", format.name);
    }
}

#[test]
fn limits_that_nothing_meets_are_an_error() {
    let refused = served(Some(1e-9), None);
    assert!(matches!(refused, Err(Refused::Options(text)) if text.contains("at most 1 ns")));
}
