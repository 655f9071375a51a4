//! Plans within a limit on memory against brute force: of two products in a chain, every
//! combination of the shardings in which values are read and produced is written out and planned
//! by the textbook's rules, which know no limit and share nothing with the search. Within each
//! limit that some of these plans just fit, the search finds one that costs no more than the
//! cheapest of them, and claims no bound above it.

use proptest::prelude::*;
use shardwise::{AxisParts, Grouping, Options, Strategy};
use shardwise_tests::random::{Dice, for_all, numbers};

/// Limits on the ladder of each program.
const RUNGS: usize = 6;

/// A matrix on one axis: not split, or split along either dimension.
const SPLITS: [[&str; 2]; 3] = [["", ""], ["_X", ""], ["", "_X"]];

/// A chain of two products.
struct Chain {
    /// All but the two products.
    head: String,
    output: String,
}

impl Chain {
    fn new(numbers: &[u32]) -> Self {
        let mut dice = Dice::new(numbers);
        let [i, j, k, l] = [(); 4].map(|()| [64, 256, 1024, 4096][dice.roll(4)]);
        let mut matrix = |name: &str, dims: [&str; 2]| {
            let role = ["input", "input", "param"][dice.roll(3)];
            format!("{role} {}\n", sharded(name, dims, SPLITS[dice.roll(3)]))
        };
        let declared =
            [matrix("A", ["I", "J"]), matrix("B", ["J", "K"]), matrix("E", ["K", "L"])].concat();
        let chip = ["tpu-v5p", "h100"][dice.roll(2)];
        let head = format!("hardware {chip}\nmesh X=4\ndim I={i}, J={j}, K={k}, L={l}\n{declared}");
        let output = format!("output {}\n", sharded("D", ["I", "L"], SPLITS[dice.roll(3)]));
        Self { head, output }
    }

    /// As its author would write it.
    fn open(&self) -> String {
        format!("{}C = A *J B\nD = C *K E\n{}", self.head, self.output)
    }

    /// With every value read and produced in every sharding.
    fn pinned(&self) -> Vec<String> {
        let all = || SPLITS.into_iter();
        let mut texts = Vec::new();
        for (a, b, c) in all().flat_map(|a| all().flat_map(move |b| all().map(move |c| (a, b, c))))
        {
            for (d, e) in all().flat_map(|d| all().map(move |e| (d, e))) {
                texts.push(format!(
                    "{}{} = {} *J {}\nD = {} *K {}\n{}",
                    self.head,
                    sharded("C", ["I", "K"], c),
                    sharded("A", ["I", "J"], a),
                    sharded("B", ["J", "K"], b),
                    sharded("C", ["I", "K"], d),
                    sharded("E", ["K", "L"], e),
                    self.output
                ));
            }
        }
        texts
    }
}

fn sharded(name: &str, dims: [&str; 2], splits: [&str; 2]) -> String {
    format!("{name}[{}{}, {}{}]", dims[0], splits[0], dims[1], splits[1])
}

fn options(strategy: Strategy, memory: f64) -> Options {
    Options {
        strategy,
        memory: Some(memory),
        grouping: Grouping::AsWritten,
        parts: AxisParts::AsWritten,
        ..Options::default()
    }
}

fn agree(chain: &Chain) -> Result<(), TestCaseError> {
    let textbook = options(Strategy::Textbook, f64::INFINITY);
    let mut plans: Vec<(f64, f64)> = chain
        .pinned()
        .iter()
        .filter_map(|text| shardwise::plan("pinned", text, &textbook).ok())
        .map(|plan| (plan.report.memory.peak_bytes, plan.report.serial_s))
        .collect();
    plans.sort_by(|a, b| a.0.total_cmp(&b.0));
    prop_assert!(plans.len() > 20, "{}", chain.open());
    for rung in 0..RUNGS {
        let limit = plans[rung * (plans.len() - 1) / (RUNGS - 1)].0;
        let fitting = plans.iter().filter(|(bytes, _)| *bytes <= limit).map(|(_, s)| *s);
        let cheapest = fitting.fold(f64::INFINITY, f64::min) * (1.0 + 1e-9);
        let found = shardwise::plan("open", &chain.open(), &options(Strategy::Search, limit));
        let found = found.map_err(|error| {
            TestCaseError::fail(format!("{limit} is refused\n{error}\n{}", chain.open()))
        })?;
        prop_assert!(found.report.memory.peak_bytes <= limit, "{found}");
        prop_assert!(found.lower_bound_s() <= cheapest, "above {cheapest} in {limit}\n{found}");
        prop_assert!(found.report.serial_s <= cheapest, "not {cheapest} in {limit}\n{found}");
    }
    Ok(())
}

#[test]
fn no_combination_of_shardings_that_fits_is_cheaper() {
    for_all(24, &numbers(20), |numbers| agree(&Chain::new(&numbers)));
}
