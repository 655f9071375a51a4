//! The search for wide programs against elimination: where both can do a program, the bounds of the one are below the minimum of the other, and
//! what the one calls proven is that minimum.

use shardwise_passes::anytime::close;
use shardwise_passes::cost::Refinement;
use shardwise_passes::dominance;
use shardwise_passes::eliminate::Limits;
use shardwise_passes::factor::source_price;
use shardwise_passes::prices::{Prices, unary};
use shardwise_passes::problem::Problem;
use shardwise_passes::reshard::Trees;
use shardwise_passes::tables::Tables;
use shardwise_passes::weight::Weight;
use shardwise_tests::read;

const AMPLE: Limits = Limits { table: 1 << 24, work: 1 << 28 };

/// What an assignment costs in the model.
fn price(problem: &Problem<'_>, assignment: &[usize], trees: &mut [Trees<'_>]) -> Weight {
    let own = problem.variables.iter().zip(assignment).map(|(variable, &choice)| variable.choices[choice].weight);
    let own: Weight = own.sum();
    let around =
        problem.sources.iter().map(|source| source_price(problem, source, assignment, &mut trees[problem.tables.number(source.value)]));
    problem.fixed + own + around.sum()
}

fn agrees(path: &str) {
    let source = read(path);
    let checked = shardwise::check(path, &source, &shardwise::Options::default());
    let program = checked.program.expect("a program");
    let tables = Tables::new(&program, Refinement::default());
    let mut problem = Problem::new(&tables, 1.0);
    dominance::prune(&mut problem);
    let mut trees: Vec<Trees<'_>> = tables.all.iter().map(Trees::new).collect();
    let exact = Prices::whole(&problem, &mut trees, AMPLE).and_then(|prices| prices.minimise_exactly(&unary(&problem)));
    let exact = exact.unwrap_or_else(|| panic!("{path} can be eliminated"));
    let closed = close(&problem, &mut trees, Weight::INFINITE, None, &mut |assignment, trees| price(&problem, assignment, trees));
    assert!(closed.bound <= exact.bound, "{path}: {:?} is no bound of {:?}", closed.bound, exact.bound);
    let assignment = closed.assignment.as_ref().expect("some assignment");
    let found = price(&problem, assignment, &mut trees);
    assert!(found >= exact.bound, "{path}: nothing is below the minimum");
    if closed.is_proven() {
        assert_eq!(found, exact.bound, "{path}: what is proven is the minimum");
    }
    assert!(closed.bound.as_seconds() >= 0.9 * exact.bound.as_seconds(), "{path}: a bound of some use");
}

#[test]
fn the_dual_bounds_what_elimination_finds() {
    for path in
        ["fsdp_tp", "mlp-2d", "mlp-3d", "models/llama3-70b-decode", "models/mixtral-8x7b-decode", "layers/train", "layers/checkpoint"]
    {
        agrees(&format!("tests/programs/{path}.shard"));
    }
}
