//! Deployments: every pair of replicas, apart with as many of each as serve most, and together.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Point, Serve};
use crate::tune::Strategy;

/// Where the two phases run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// On chips of their own.
    Apart,
    /// On the same chips.
    Together,
}

/// The replicas of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pool {
    /// Replicas.
    pub replicas: u64,
    /// Chips of one.
    pub chips: u64,
    /// Prompts or sequences of a step of one.
    pub batch: u64,
    /// What a replica does.
    pub strategy: Strategy,
}

/// Replicas of both phases.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Deployment {
    /// Where the phases run.
    pub kind: Kind,
    /// The replicas of prefill; together, the same chips as those of decode.
    pub prefill: Pool,
    /// The replicas of decode.
    pub decode: Pool,
    /// Chips in use.
    pub chips: u64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Tokens a second and chip, of all chips.
    pub tokens_per_s_and_chip: f64,
    /// The price of a million tokens, where a chip-hour has one: of all chips, also those at rest.
    pub price_of_million: Option<f64>,
    /// Seconds to the first token.
    pub first_s: f64,
    /// Seconds between two tokens.
    pub next_s: f64,
    /// Peak bytes of a device; together, with what the phase that does not run keeps there.
    pub peak_bytes: f64,
}

/// Both phases on replicas of all sizes.
pub(super) struct Phases<'a> {
    pub(super) chips: u64,
    /// Bytes of a device; infinite without a limit.
    pub(super) capacity_bytes: f64,
    pub(super) serve: &'a Serve,
    pub(super) prefill: Vec<Point>,
    pub(super) decode: Vec<Point>,
}

/// Seconds of a step: as planned, or no less than.
type Seconds = fn(&Strategy) -> f64;

impl Phases<'_> {
    /// Every deployment within the limits.
    pub(super) fn deployments(&self) -> Vec<Deployment> {
        let mut all = self.all(|strategy| strategy.objective_s);
        all.retain(|of| of.peak_bytes <= self.capacity_bytes);
        all
    }

    /// What no deployment exceeds, requests a second: with other plans of the same replicas more
    /// of them may fit together.
    pub(super) fn bound(&self) -> f64 {
        let all = self.all(|strategy| strategy.lower_bound_s);
        all.iter().map(|of| of.requests_per_s).fold(0.0, f64::max)
    }

    fn all(&self, seconds: Seconds) -> Vec<Deployment> {
        let pairs = self.prefill.iter().flat_map(|p| self.decode.iter().map(move |d| (p, d)));
        let of_pair = |(p, d): (&Point, &Point)| {
            let together = (p.chips == d.chips).then(|| self.together(p, d, seconds)).flatten();
            self.apart(p, d, seconds).into_iter().chain(together)
        };
        pairs.flat_map(of_pair).collect()
    }

    /// As many replicas of each as serve most; fewer chips where that is the same.
    fn apart(&self, p: &Point, d: &Point, seconds: Seconds) -> Option<Deployment> {
        let of_prefill = p.batch as f64 / seconds(&p.strategy);
        let of_decode = d.batch as f64 / (self.serve.tokens as f64 * seconds(&d.strategy));
        let served = |&(x, y): &(u64, u64)| (x as f64 * of_prefill).min(y as f64 * of_decode);
        let counts = (1..=self.chips / p.chips)
            .map(|x| (x, (self.chips - x * p.chips) / d.chips))
            .filter(|&(_, y)| y > 0);
        // The first of several that serve the same has the fewest replicas of prefill.
        let (x, y) = counts.reduce(|a, b| if served(&b) > served(&a) { b } else { a })?;
        let rate = served(&(x, y));
        let needed = |of_one: f64| (rate / of_one * (1.0 - 1e-9)).ceil().max(1.0) as u64;
        let (x, y) = (needed(of_prefill).min(x), needed(of_decode).min(y));
        let next_s = seconds(&d.strategy);
        Some(self.deployment(Kind::Apart, [(x, p), (y, d)], rate, [seconds(&p.strategy), next_s]))
    }

    /// Replicas that do both.
    fn together(&self, p: &Point, d: &Point, seconds: Seconds) -> Option<Deployment> {
        let replicas = self.chips / d.chips;
        let of_prompt = seconds(&p.strategy) / p.batch as f64;
        let tokens = self.serve.tokens as f64;
        let of_request = of_prompt + tokens * seconds(&d.strategy) / d.batch as f64;
        let next_s = seconds(&d.strategy) + d.batch as f64 * of_prompt / tokens;
        let is_late = self.serve.next_s.is_some_and(|longest_s| next_s > longest_s);
        let rate = replicas as f64 / of_request;
        let both = [(replicas, p), (replicas, d)];
        (!is_late)
            .then(|| self.deployment(Kind::Together, both, rate, [seconds(&p.strategy), next_s]))
    }

    fn deployment(
        &self,
        kind: Kind,
        [prefill, decode]: [(u64, &Point); 2],
        requests_per_s: f64,
        [first_s, next_s]: [f64; 2],
    ) -> Deployment {
        let pool = |(replicas, of): (u64, &Point)| Pool {
            replicas,
            chips: of.chips,
            batch: of.batch,
            strategy: of.strategy.clone(),
        };
        let chips = |(replicas, of): (u64, &Point)| replicas * of.chips;
        let tokens_per_s_and_chip = requests_per_s * self.serve.tokens as f64 / self.chips as f64;
        // That of a step of one phase, by the tokens that a chip-hour has there and here.
        let of_step = &decode.1.strategy;
        let price_of_million = of_step.price_of_million.zip(of_step.tokens_per_s_and_chip);
        Deployment {
            kind,
            prefill: pool(prefill),
            decode: pool(decode),
            chips: match kind {
                Kind::Apart => chips(prefill) + chips(decode),
                Kind::Together => chips(decode),
            },
            requests_per_s,
            tokens_per_s_and_chip,
            price_of_million: price_of_million
                .map(|(of_million, per_s)| of_million * per_s / tokens_per_s_and_chip),
            first_s,
            next_s,
            peak_bytes: peak_bytes(kind, &prefill.1.strategy, &decode.1.strategy),
        }
    }
}

fn peak_bytes(kind: Kind, prefill: &Strategy, decode: &Strategy) -> f64 {
    match kind {
        Kind::Apart => prefill.peak_bytes.max(decode.peak_bytes),
        Kind::Together => prefill.peak_bytes_beside(decode).max(decode.peak_bytes_beside(prefill)),
    }
}

/// The best so many, of each choice of sizes and place only the best batches.
pub(super) fn best(mut all: Vec<Deployment>, count: usize) -> Vec<Deployment> {
    // The sort is stable: of equal ones the first enumerated is first.
    all.sort_by(|a, b| b.requests_per_s.total_cmp(&a.requests_per_s).then(a.chips.cmp(&b.chips)));
    let mut seen = indexmap::IndexSet::new();
    let mut seen_first =
        |of: &Deployment| seen.insert((of.kind == Kind::Apart, of.prefill.chips, of.decode.chips));
    all.into_iter().filter(|of| seen_first(of)).take(count.max(1)).collect()
}
