//! The search for wide programs against elimination: where both can solve a program, the bounds of
//! the one are below the minimum of the other, and a solution reported optimal attains it.

use shardwise_ir::dataflow::Analyzed;
use shardwise_passes::Tables;
use shardwise_passes::collective::Refinement;
use shardwise_passes::solver::{Interrupt, Limits, StopReason, TableLimits, minimize};
use shardwise_passes::{Problem, dominance};
use shardwise_tests::model::{NO_ELIMINATION, bounded, rounding_s};
use shardwise_tests::random::draws;
use shardwise_tests::{random_program, read};

fn program(name: &str, source: &str) -> Option<Analyzed> {
    shardwise::check(name, source, &shardwise::Options::default()).program
}

const AMPLE: TableLimits = TableLimits { table: 1 << 24, term: 1 << 21, work: 1 << 28 };

fn agrees(path: &str) {
    let source = read(path);
    let program = program(path, &source).expect("a program");
    let tables = Tables::new(&program, Refinement::default());
    let mut problem = Problem::new(&tables, 1.0);
    dominance::prune(&mut problem, &Interrupt::NEVER);
    let model = problem.model();
    let exact = minimize(&model, &Limits { elimination: AMPLE, ..Limits::default() });
    assert_eq!(exact.stop_reason, StopReason::Eliminated, "{path} can be eliminated");
    let elimination = TableLimits { table: 0, term: 0, work: 0 };
    let closed = minimize(&model, &Limits { elimination, ..Limits::default() });
    assert!(
        closed.bound <= exact.bound,
        "{path}: {:?} is no bound of {:?}",
        closed.bound,
        exact.bound
    );
    let assignment = closed.assignment.as_ref().expect("some assignment");
    let found = model.cost(assignment, &mut model.tree_tables());
    assert_eq!(found, closed.value, "{path}: an assignment costs the value reported");
    assert!(found >= exact.bound, "{path}: nothing is below the minimum");
    if closed.stop_reason.is_proof() {
        assert_eq!(found, exact.bound, "{path}: what is proven is the minimum");
    }
    assert!(
        closed.bound.as_seconds() >= 0.9 * exact.bound.as_seconds(),
        "{path}: a bound of some use"
    );
}

#[test]
fn the_dual_bounds_what_elimination_finds() {
    for path in [
        "fsdp_tp",
        "mlp-2d",
        "mlp-3d",
        "models/llama3-70b-decode",
        "models/mixtral-8x7b-decode",
        "layers/train",
        "layers/checkpoint",
    ] {
        agrees(&format!("tests/programs/{path}.shard"));
    }
}

/// The least price and how near the dual comes to it from both sides, if elimination can do the
/// program.
fn nearness(source: &str, limits: TableLimits) -> Option<(f64, f64)> {
    let program = program("random", source)?;
    let tables = Tables::new(&program, Refinement::default());
    let model = Problem::new(&tables, 1.0).model();
    let exact = minimize(&model, &Limits { elimination: limits, ..NO_ELIMINATION });
    if exact.stop_reason != StopReason::Eliminated {
        return None;
    }
    let (least_s, bounded) = (exact.bound.as_seconds(), bounded(&model));
    let close = rounding_s(least_s);
    assert!(bounded.bound_s <= least_s + close, "{} bounds {least_s}\n{source}", bounded.bound_s);
    assert!(bounded.found_s >= least_s - close, "{} is below {least_s}\n{source}", bounded.found_s);
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 1.0 };
    Some((share(bounded.bound_s, least_s), share(least_s, bounded.found_s)))
}

const FEW: TableLimits = TableLimits { table: 1 << 16, term: 1 << 13, work: 1 << 20 };

/// On random programs of many operations: never on the wrong side, and mostly within a few percent.
#[test]
fn what_the_dual_says_alone_lies_around_the_least_price() {
    let mut draws = draws();
    for (axes, operations, cases) in [(1, 8, 60), (2, 6, 40), (3, 3, 12)] {
        let mut near = Vec::new();
        for numbers in draws.by_ref().take(cases) {
            near.extend(nearness(&random_program::program(&numbers, axes, operations), FEW));
        }
        assert!(
            near.len() > cases / 3,
            "most programs can be eliminated, and not only {} of {cases}",
            near.len()
        );
        let mean =
            |side: fn(&(f64, f64)) -> f64| near.iter().map(side).sum::<f64>() / near.len() as f64;
        let (bounds, plans) = (mean(|near| near.0), mean(|near| near.1));
        assert!(
            bounds > 0.9 && plans > 0.95,
            "{axes} axes: bounds at {bounds} of the least, which is at {plans} of what is found"
        );
    }
}

/// What a value that nothing reads is sent would be lost for its producer's other readers; one
/// whose sharding is written costs what leads there.
#[test]
fn values_that_nothing_reads_leave_the_bound_exact() {
    let unread = "hardware tpu-v5p\nmesh X=8, Y=4\ndim B=512, D=1024, F=128\n\
        input in0[F, D], in1[D, B, F]\nv0 = in0 *D in1\nv1 = gelu(in1)\nv2 = in0 *D v1\n\
        v3 = gelu(v2)\nv4 = in0 *F v0\nv5[F_?, B_?] = rename(v2)\nv6 = v0 *F in0\n\
        output v5[F, B]\noutput v6[B, D]\n";
    let written = "hardware tpu-v5p\nmesh X=2, Y=2, Z=8\ndim K=64, T=1024, E=128, K2=K\n\
        input in1[K2, E]\ninput in4[K2, K_{Z,X}, E_Y]\nv3[E, K] = in1 *K2 in4\n";
    for source in [unread, written] {
        let (bound, found) = nearness(source, AMPLE).expect("it can be eliminated");
        assert!(bound > 0.999 && found > 0.999, "{bound} and {found}");
    }
}

/// A value with more uses than trees are taken for together.
#[test]
fn trees_at_their_share_of_the_price_are_bounds() {
    let mut source =
        "hardware tpu-v5p\nmesh X=4\ndim I=4096, J=4096\ninput A[I_X, J]\nB = gelu(A)\n".to_owned();
    for (i, brackets) in ["I_X, J", "I, J_X", "I, J"].iter().cycle().take(9).enumerate() {
        source += &format!("T{i} = relu(B)\noutput T{i}[{brackets}]\n");
    }
    let (bound, found) = nearness(&source, AMPLE).expect("it can be eliminated");
    assert!(bound > 0.5 && found > 0.9, "{bound} and {found}");
}
