//! Random inputs that are the same in every run, and shrunk where a check fails.

use std::collections::BTreeMap;

use proptest::collection::{VecStrategy, vec};
use proptest::num::u32::Any;
use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use shardwise_ir::program::{Program, Value};

/// Choices made from a list of numbers, again from its start when it is used up.
pub struct Dice<'a> {
    numbers: &'a [u32],
    next: usize,
}

impl<'a> Dice<'a> {
    /// At the start of `numbers`; without any, every choice is the first.
    pub fn new(numbers: &'a [u32]) -> Self {
        Self { numbers, next: 0 }
    }

    /// One of `0..sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        let number =
            if self.numbers.is_empty() { 0 } else { self.numbers[self.next % self.numbers.len()] };
        self.next += 1;
        number as usize % sides.max(1)
    }

    /// True in one of `sides` rolls.
    pub fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 1
    }

    /// One of a list.
    pub fn pick<'t, T>(&mut self, among: &'t [T]) -> &'t T {
        &among[self.roll(among.len())]
    }
}

/// Lists of `count` numbers, for [`Dice`].
pub fn numbers(count: usize) -> VecStrategy<Any> {
    vec(any::<u32>(), count)
}

/// How many times as many random programs are tried as usual: `RANDOM_TIMES` in the environment.
pub fn times() -> usize {
    std::env::var("RANDOM_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Checks `cases` random inputs; one that fails is shrunk first. Inputs that are rejected do not
/// count.
///
/// # Panics
/// If a check fails.
pub fn for_all<S: Strategy>(
    cases: u32,
    inputs: &S,
    check: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config {
        cases,
        max_global_rejects: 100_000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, rng).run(inputs, check);
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Lists of 120 numbers without end, for counts and means over random programs.
///
/// # Panics
/// Never: numbers can always be drawn.
pub fn draws() -> impl Iterator<Item = Vec<u32>> {
    let mut runner = TestRunner::deterministic();
    std::iter::repeat_with(move || {
        numbers(120).new_tree(&mut runner).expect("numbers can be drawn").current()
    })
}

/// The list of 120 numbers that belongs to a case, by a linear congruential generator.
pub fn numbers_of_case(case: u32) -> Vec<u32> {
    let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(case), next).skip(3).take(120).map(|state| state >> 8).collect()
}

/// Values by name.
pub type Arrays = BTreeMap<String, Vec<f64>>;

/// Numbers from -0.5 to 0.5 for everything that a program declares.
pub fn arrays(program: &Program, seed: u64) -> Arrays {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    let declared = program.values.iter().filter(|value| value.is_declared());
    let size = |value: &Value| {
        value.dims.iter().map(|&dim| program.dims[dim].size as usize).product::<usize>()
    };
    declared.map(|value| (value.name.clone(), (0..size(value)).map(|_| next()).collect())).collect()
}
