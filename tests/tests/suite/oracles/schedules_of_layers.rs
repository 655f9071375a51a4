//! Schedules of blocks, of which a few layers are simulated, against a simulation of all layers.

use shardwise::{AxisParts, Grouping, Objective, Options, Planned, Rates};
use shardwise_ir::program::Program;
use shardwise_ir::unroll;
use shardwise_passes::collective::Refinement;
use shardwise_passes::{Effort, ExpandedPlan, report};
use shardwise_tests::{files, read};

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
    let mut all = unroll::plan(&planned.plan, &|block| program.repeats[block].count).plan;
    // Blocks without statements: as in blocks, compute has the order of the program.
    all.program.repeats.clone_from(&program.repeats);
    all.program.repeats.iter_mut().for_each(|block| block.count = 1);
    let all = ExpandedPlan::from(all);
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

/// The shardings of a value of two dimensions over some axes, as subscripts of both.
fn shardings(axes: &[&str]) -> Vec<[String; 2]> {
    let mut found = vec![[String::new(), String::new()]];
    for axis in axes {
        let split = |dim: usize| {
            let with = move |sharding: &[String; 2]| {
                let mut sharding = sharding.clone();
                sharding[dim] += axis;
                sharding
            };
            found.iter().map(with).collect::<Vec<_>>()
        };
        let more = [split(0), split(1)].concat();
        found.extend(more);
    }
    found
}

/// An MLP of four layers, of which two values have these subscripts.
fn mlp(hardware: &str, mesh: &str, sizes: [u64; 3], pins: Option<[&[String; 2]; 2]>) -> String {
    let axis = |text: &String| if text.is_empty() { String::new() } else { format!("_{text}") };
    let written = |pin: usize, names: [&str; 2]| match pins {
        Some(pins) => {
            let [one, other] = pins[pin];
            format!("[{}{}, {}{}]", names[0], axis(one), names[1], axis(other))
        }
        None => String::new(),
    };
    let [i, j, k] = sizes;
    format!(
        "hardware {hardware}\nmesh {mesh}\ndim I={i}, J={j}, K={k}\ninput a[I, J]\n\
         repeat L=4 {{\n  carry a\n  param V[J_X, K], W[J, K_X], U[K, J]\n  h{} = a *J W\n  \
         a{} = a + (gelu(h) * (a *J V)) *K U\n}}\noutput a[I_?, J_?]\n",
        written(0, ["I", "K"]),
        written(1, ["I", "J"]),
    )
}

/// What bounds the shortest schedule bounds those of all plans, in which two values of a layer have
/// every sharding in turn.
#[test]
fn bounds_of_layers_hold_for_every_sharding() {
    let plan = |source: &str, objective| {
        let options = Options {
            objective,
            memory: Some(f64::INFINITY),
            grouping: Grouping::AsWritten,
            parts: AxisParts::AsWritten,
            ..Options::default()
        };
        shardwise::plan("mlp", source, &options).unwrap_or_else(|findings| panic!("{findings}"))
    };
    let (mut compared, mut shortest) = (0, 0);
    for (mesh, axes) in [("X=4", &["X"][..]), ("X=4, Y=2", &["X", "Y"][..])] {
        for (hardware, sizes) in [
            ("tpu-v5e", [8192, 4096, 8192]),
            ("tpu-v5e", [480, 4096, 16384]),
            ("h100", [4096, 8192, 512]),
            ("tpu-v5p", [16384, 1024, 4096]),
        ] {
            let free = plan(&mlp(hardware, mesh, sizes, None), Objective::Scheduled);
            let (found_s, bound_s) = (free.report.schedule.makespan_s, free.lower_bound_s());
            let pins = shardings(axes);
            let pairs = pins.iter().flat_map(|one| pins.iter().map(move |other| [one, other]));
            let pinned_s = pairs.map(|pair| {
                let pinned = plan(&mlp(hardware, mesh, sizes, Some(pair)), Objective::Serial);
                pinned.report.schedule.makespan_s
            });
            let pinned_s = pinned_s.fold(f64::INFINITY, f64::min);
            assert!(bound_s <= pinned_s * (1.0 + 1e-9), "{bound_s} {pinned_s} {mesh} {hardware}");
            assert!(bound_s >= found_s * 0.5, "{bound_s} {found_s} {mesh} {hardware}");
            compared += 1;
            shortest += usize::from(found_s <= pinned_s * (1.0 + 1e-9));
        }
    }
    assert!(shortest * 4 >= compared * 3, "{shortest} of {compared}");
}

/// Their shortest known schedules take some decisions of one plan that attains a bound and some of
/// another: with these plans alone the gaps were 7 to 21%.
#[test]
fn schedules_between_the_plans_of_bounds_are_found() {
    for (path, gap) in
        [("open/mlp-train", 0.05), ("scans/chunked-loss", 0.02), ("pipelines/3d-adam", 0.1)]
    {
        let source = read(&format!("tests/programs/{path}.shard"));
        let options = Options { objective: Objective::Scheduled, ..Options::default() };
        let found = shardwise::plan(path, &source, &options).expect("it has a plan");
        let (schedule_s, least_s) = (found.report.schedule.makespan_s, found.lower_bound_s());
        assert!(schedule_s - least_s < gap * schedule_s, "{path}: {schedule_s} {least_s}");
    }
}
