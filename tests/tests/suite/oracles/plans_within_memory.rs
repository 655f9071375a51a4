//! Plans within a limit on memory against brute force: of two products in a chain, every
//! combination of the shardings in which values are read and produced is written out and planned
//! by the textbook's rules, which know no limit and share nothing with the search. Within each
//! limit that some of these plans just fit, the search finds one that costs no more than the
//! cheapest of them, and claims no bound above it.
//!
//! And of random programs against an enumeration of everything that may be in memory at a time:
//! what has a plan is not refused, what is claimed as the optimum is it, and what a refusal says is
//! needed is enough and not much more than necessary.

use proptest::prelude::*;
use shardwise::{AxisParts, Grouping, Options, Strategy};
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::program::OpKind;
use shardwise_tests::brute_force::optimum_within;
use shardwise_tests::random::{Dice, draws, for_all, numbers};

use super::brute_force::sketch;

/// Limits on the ladder of each program.
const RUNGS: usize = 6;

/// What a refusal names has three digits, and may be near the smallest.
const LESS: f64 = 0.98;
const MORE: f64 = 1.006;

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

/// Whether an input has no use, or gives no more than its shape: a step that nobody needs would
/// then free its memory.
fn has_unused_input(program: &Analyzed) -> bool {
    program.values.iter_enumerated().any(|(id, value)| {
        let is_read = program
            .dataflow()
            .uses_of(id)
            .any(|(op, place)| place < program.ops[op].sharded_operands().len().max(1));
        let leaves = program.dataflow().outputs_of(id).next().is_some();
        value.is_declared() && value.name != "Q" && !is_read && !leaves
    })
}

/// Whether a result may take the place of an operand.
fn has_update(program: &Analyzed) -> bool {
    program.ops.iter().any(|op| matches!(op.kind, OpKind::Update { .. }))
}

/// What the smallest plan found needs, as a refusal says it.
fn needed_bytes(refusal: &str) -> f64 {
    let (_, needed) = refusal.split_once("plan found needs ").expect("it says what is needed");
    let mut words = needed.split([' ', ',', '\n']);
    let number: f64 = words.next().and_then(|word| word.parse().ok()).expect("a number of bytes");
    let unit = words.next().expect("a unit");
    let units = [("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)];
    let (_, bytes) = units.iter().find(|(known, _)| *known == unit).expect("a unit of bytes");
    number * bytes
}

/// Plans of a program, as written and on whole axes, within parts of the memory that the cheapest
/// takes; how many were compared, and how many of them claim to be the optimum.
fn agree_with_enumeration(text: &str) -> (usize, usize) {
    let (mut compared, mut optimal) = (0, 0);
    let plan = |memory: f64| shardwise::plan("program", text, &options(Strategy::Search, memory));
    let program = shardwise::check("program", text, &Options::default()).program;
    let Some(program) = program.filter(|program| !has_unused_input(program)) else { return (0, 0) };
    let Ok(free) = plan(f64::INFINITY) else { return (0, 0) };
    for part in [0.6, 0.75, 0.85, 0.92, 0.97] {
        let limit = part * free.report.memory.peak_bytes;
        let Some(least_s) = optimum_within(&program, limit) else { continue };
        let found = match plan(limit) {
            Ok(found) => found,
            Err(refusal) => {
                assert!(least_s.is_infinite(), "{least_s} fits into {limit}\n{text}");
                let needed = needed_bytes(&refusal.to_string());
                // Of these no need is proven.
                let least_s =
                    optimum_within(&program, LESS * needed).filter(|_| !has_update(&program));
                assert!(least_s.is_none_or(f64::is_infinite), "less than {needed}\n{text}");
                assert!(plan(MORE * needed).is_ok(), "not within {needed}\n{text}");
                compared += 1;
                continue;
            }
        };
        let (serial_s, is_optimal) = (found.report.serial_s, found.status_name() == "optimal");
        assert!(serial_s >= least_s * (1.0 - 1e-9), "{least_s} in {limit}\n{found}");
        assert!(found.lower_bound_s() <= least_s * (1.0 + 1e-9), "{least_s} in {limit}\n{found}");
        assert!(!is_optimal || serial_s <= least_s * (1.0 + 1e-9), "{least_s} in {limit}\n{found}");
        compared += 1;
        optimal += usize::from(is_optimal);
    }
    (compared, optimal)
}

/// Sums of such counts.
fn all_agree(texts: impl Iterator<Item = String>) -> (usize, usize) {
    let counts = texts.map(|text| agree_with_enumeration(&text));
    counts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

#[test]
fn nothing_that_may_be_in_memory_leads_to_a_cheaper_plan() {
    let of_sizes = [(100, 1, 2), (32, 1, 3), (40, 2, 1)];
    let random = of_sizes.into_iter().flat_map(|(programs, axes, operations)| {
        draws().take(programs).map(move |numbers| sketch(&numbers, axes, operations).text)
    });
    let (compared, optimal) = all_agree(random);
    assert!(compared >= 190 && optimal >= 28, "{optimal} of {compared}");
}

/// Kernels that leave results on the chip: what their products read is there until they end, what
/// they read element by element is not.
#[test]
fn kernels_within_memory_are_as_cheap_as_enumeration_finds_them() {
    let declared = [
        "input A[I_X, J], B[J_X, K]",
        "input A[I, J_X], B[J, K_X]",
        "input A[I_X, J]\nparam B[J, K_X]",
        "input A[I, J], B[J_X, K]",
    ];
    let bodies = [
        "D = gelu(A *J B)",
        "D = relu(exp(A) *J B)",
        "C = relu(A) * A\nD = gelu(C *J B)",
        "C = A *J B\nE = exp(C)\nD = E * relu(C)",
        "C = gelu(A *J B)\nD = cast<f32>(C)",
    ];
    let ends = ["output D[I_X, K]", "output D[I, K_X]", "output D[I, K]"];
    let text = |declared: &str, body: &str, end: &str| {
        format!("hardware h100\nmesh X=4\ndim I=64, J=64, K=256\n{declared}\n{body}\n{end}\n")
    };
    let all = declared.into_iter().flat_map(|declared| {
        let with = move |body| ends.map(|end| text(declared, body, end));
        bodies.into_iter().flat_map(with)
    });
    let (compared, optimal) = all_agree(all);
    assert!(compared >= 100 && optimal >= 60, "{optimal} of {compared}");
}
