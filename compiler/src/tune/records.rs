//! Answers in machine-readable form: CSV (seconds and bytes, full precision) and JSON.

use super::strategy::ROLES;
use super::{Strategy, Tuned};
use crate::display;
use crate::planned::parallelism::Role;

pub(super) fn csv(tuned: &Tuned) -> String {
    let head = ["rank", "mesh"].into_iter().chain(ROLES.map(Role::name)).chain([
        "microbatches",
        "schedule",
        "chunks",
        "longest",
        "batch",
        "recompute",
        "dtypes",
        "objective_s",
        "lower_bound_s",
        "step_s",
        "compute_s",
        "comm_s",
        "bubble_s",
        "mfu",
        "peak_bytes",
        "bound_by",
        "price_of_million",
    ]);
    let head: Vec<String> = head.map(str::to_owned).collect();
    let rows = tuned.strategies.iter().enumerate().map(|(i, strategy)| row(i + 1, strategy));
    display::csv(std::iter::once(head).chain(rows))
}

fn row(rank: usize, strategy: &Strategy) -> Vec<String> {
    let mut cells = vec![rank.to_string(), strategy.mesh.clone()];
    cells.extend(ROLES.map(|role| strategy.degree(role.name()).to_string()));
    let number = |of: Option<u64>| of.map_or_else(String::new, |count| count.to_string());
    cells.push(number(strategy.microbatches));
    let pipeline = strategy.pipeline;
    cells.push(pipeline.map_or_else(String::new, |of| of.schedule.name().to_owned()));
    cells.push(number(pipeline.map(|of| of.chunks)));
    cells.push(number(pipeline.and_then(|of| of.longest)));
    cells.push(number(strategy.batch));
    cells.push(strategy.recompute.to_owned());
    cells.push(strategy.dtypes.to_owned());
    let numbers = [
        strategy.objective_s,
        strategy.lower_bound_s,
        strategy.step_s,
        strategy.compute_s,
        strategy.comm_s,
        strategy.bubble_s,
        strategy.mfu,
        strategy.peak_bytes,
    ];
    cells.extend(numbers.iter().map(f64::to_string));
    cells.push(strategy.bound_by.clone());
    cells.push(strategy.price_of_million.map_or_else(String::new, |price| price.to_string()));
    cells
}

pub(super) fn json(tuned: &Tuned) -> String {
    serde_json::to_string_pretty(tuned).unwrap_or_default() + "\n"
}
