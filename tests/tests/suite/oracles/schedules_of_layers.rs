//! Schedules of blocks, of which a few layers are simulated, against a simulation of all layers.

use shardwise::{Options, Planned, Rates};
use shardwise_ir::program::Program;
use shardwise_ir::unroll;
use shardwise_passes::collective::Refinement;
use shardwise_passes::{Effort, ExpandedPlan, report};
use shardwise_tests::files;

/// Steps of all layers that are simulated, at most.
const MOST_STEPS: u64 = 20_000;

/// Whether all layers of a program can be written out: it has blocks, and none in a pipeline.
fn has_layers(program: &Program) -> bool {
    let mut blocks = program.repeats.iter();
    !program.repeats.is_empty()
        && blocks.all(|block| block.pipeline.is_none() && block.microbatches_of.is_none())
}

/// The makespan of a plan, and that of a plan with all layers written out; `None` where these are
/// too many.
fn both_s(planned: &Planned) -> Option<(f64, f64)> {
    let program = &planned.plan.program;
    let steps: u64 = planned.plan.steps.iter().map(|step| program.iterations(step.repeat)).sum();
    if !has_layers(program) || steps > MOST_STEPS {
        return None;
    }
    let all = unroll::plan(&planned.plan, &|block| program.repeats[block].count);
    let all = ExpandedPlan::from(all.plan);
    let all_s = report::report(&all, Refinement::default()).schedule.makespan_s;
    Some((planned.report.schedule.makespan_s, all_s))
}

/// They are never longer, since nothing that bounds them from below is more than a bound, and
/// hardly shorter.
#[test]
fn schedules_of_few_layers_are_those_of_all() {
    let (mut compared, mut near) = (0, 0);
    for folder in ["scans", "nested", "layers", "training", "book", "attention", "twenty"] {
        for (name, source) in files(&format!("tests/programs/{folder}"), ".shard") {
            for rates in [Rates::Peak, Rates::Measured] {
                let (memory, rates) = (Some(f64::INFINITY), Some(rates));
                let options =
                    Options { memory, rates, effort: Effort::Quick, ..Options::default() };
                let Ok(planned) = shardwise::plan(&name, &source, &options) else { continue };
                let Some((few_s, all_s)) = both_s(&planned) else { continue };
                assert!(few_s <= all_s * (1.0 + 1e-9), "{name} {rates:?}: {few_s} {all_s}");
                assert!(few_s >= all_s * 0.9, "{name} {rates:?}: {few_s} {all_s}");
                compared += 1;
                near += usize::from(few_s >= all_s * 0.99);
            }
        }
    }
    assert!(compared >= 50 && near * 5 >= compared * 4, "{near} of {compared}");
}
