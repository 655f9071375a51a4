//! Answers in machine-readable form: CSV (seconds and bytes, full precision) and JSON.

use csv::Writer;

use super::{Strategy, Tuned};

const ROLES: [&str; 6] = ["DP", "FSDP", "TP", "SP", "EP", "PP"];

pub(super) fn csv(tuned: &Tuned) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    let head = ["rank", "mesh"].into_iter().chain(ROLES).chain([
        "microbatches",
        "recompute",
        "objective_s",
        "lower_bound_s",
        "step_s",
        "compute_s",
        "comm_s",
        "bubble_s",
        "mfu",
        "peak_bytes",
        "bound_by",
    ]);
    let head: Vec<String> = head.map(str::to_owned).collect();
    let rows = tuned.strategies.iter().enumerate().map(|(i, strategy)| row(i + 1, strategy));
    std::iter::once(head)
        .chain(rows)
        .for_each(|row| writer.write_record(row).expect("all rows are of one length"));
    let bytes = writer.into_inner().expect("memory can be written to");
    String::from_utf8(bytes).expect("cells are text")
}

fn row(rank: usize, strategy: &Strategy) -> Vec<String> {
    let mut cells = vec![rank.to_string(), strategy.mesh.clone()];
    cells.extend(ROLES.map(|role| strategy.degree(role).to_string()));
    cells.push(strategy.microbatches.map_or_else(String::new, |count| count.to_string()));
    cells.push(strategy.recompute.to_owned());
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
    cells
}

pub(super) fn json(tuned: &Tuned) -> String {
    serde_json::to_string_pretty(tuned).unwrap_or_default() + "\n"
}
