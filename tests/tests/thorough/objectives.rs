//! The plans of every objective beside each other: each is the best at its own, whatever the limit
//! on memory.

use rayon::prelude::*;
use shardwise::{Objective, Options, Planned};
use shardwise_tests::{paths_below, read};

/// Programs of more operations take too long to be planned eight times.
const MOST_OPERATIONS: usize = 40;

fn objective_s(objective: Objective, planned: &Planned) -> f64 {
    match objective {
        Objective::Serial => planned.report.serial_s,
        Objective::Comm => planned.report.comm_s,
        Objective::Overlap => planned.report.overlap_s,
        Objective::Scheduled => planned.report.schedule.makespan_s,
    }
}

/// Plans by every objective; nothing where there is none.
fn plans(name: &str, source: &str, memory: Option<f64>) -> Vec<(Objective, Planned)> {
    let by = |objective| {
        let options = Options { objective, memory, ..Options::default() };
        Some((objective, shardwise::plan(name, source, &options).ok()?))
    };
    [Objective::Serial, Objective::Comm, Objective::Overlap, Objective::Scheduled]
        .into_iter()
        .filter_map(by)
        .collect()
}

fn assert_each_is_best(name: &str, plans: &[(Objective, Planned)]) {
    assert!(plans.is_empty() || plans.len() == 4, "{name}: some objectives have no plan");
    for (objective, own) in &plans[plans.len().min(2)..] {
        for (other, plan) in plans.iter().take_while(|(other, _)| other != objective) {
            let (own_s, other_s) = (objective_s(*objective, own), objective_s(*objective, plan));
            assert!(
                own_s <= other_s * (1.0 + 1e-9) && own.lower_bound_s() <= other_s * (1.0 + 1e-9),
                "{name}: at {objective:?}, {other:?} has {other_s} and {own_s} is claimed"
            );
        }
    }
}

#[test]
fn overlap_and_schedule_are_never_worse_than_other_objectives() {
    let fixtures = paths_below("tests/programs", ".shard");
    let programs: Vec<(String, String)> =
        fixtures.into_iter().map(|path| (path.clone(), read(&path))).filter(is_small).collect();
    let compared: usize = programs
        .par_iter()
        .map(|(name, source)| {
            let free = plans(name, source, Some(f64::INFINITY));
            assert_each_is_best(name, &free);
            let Some((_, serial)) = free.first() else { return 0 };
            let limited = plans(name, source, Some(0.8 * serial.report.memory.peak_bytes));
            if limited.len() == 4 {
                assert_each_is_best(name, &limited);
            }
            1
        })
        .sum();
    assert!(compared >= 100, "{compared}");
}

/// Whether a program is correct and small; a printed plan has nothing to be searched.
fn is_small((name, source): &(String, String)) -> bool {
    let checked = shardwise::check(name, source, &Options::default());
    !source.starts_with("plan")
        && checked.program.is_some_and(|program| program.ops.len() <= MOST_OPERATIONS)
}
