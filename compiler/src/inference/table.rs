//! Inference sizing as text: sentences about the step, then a row for each batch.

use super::{Cache, Inference, Phase, Row};
use crate::display::table::{self, Column};
use crate::display::units::{bytes, count, number, seconds};

const COLUMNS: [Column; 8] = {
    let cost = Column::Right(9);
    [Column::Right(8), cost, cost, cost, cost, cost, cost, Column::Left(0)]
};

/// The lines after those of `cost`, for a device memory of `capacity` bytes.
pub(crate) fn lines(inference: &Inference, capacity: Option<f64>) -> Vec<String> {
    let mut lines = vec![String::new(), headline(inference)];
    lines.extend(cache_line(inference.phase, &inference.cache));
    lines.push(step_line(inference));
    lines.push(critical_line(inference));
    lines.extend(capacity.map(|capacity| largest_batch_line(inference, capacity)));
    if !inference.batches.is_empty() {
        lines.push(String::new());
        let costs = ["held", "a device", "at best", "tokens/s", "this plan", "fits", "bound by"];
        let head: Vec<&str> = [inference.batch_dim.as_str()].into_iter().chain(costs).collect();
        lines.push(table::row(&COLUMNS, &head));
        lines.extend(inference.batches.iter().map(row));
    }
    lines
}

fn headline(inference: &Inference) -> String {
    let Row { batch, tokens, .. } = inference.step;
    let each = tokens / batch as f64;
    let of = if each > 1.0 { format!(", {} each", number(each)) } else { String::new() };
    format!(
        "{}: {} tokens a step, {} = {batch} sequences{of}",
        inference.phase.name(),
        count(tokens),
        inference.batch_dim
    )
}

fn cache_line(phase: Phase, cache: &Cache) -> Option<String> {
    let Cache { token_bytes, sequence_bytes, shared_bytes, context, is_read } = *cache;
    if sequence_bytes + shared_bytes <= 0.0 {
        return (phase == Phase::Decode).then(|| "KV cache: none is read".to_owned());
    }
    let of_one_length = token_bytes > 0.0;
    let tokens =
        if of_one_length { format!("{} a token, ", bytes(token_bytes)) } else { String::new() };
    let long = match context {
        0 => String::new(),
        _ if of_one_length => format!(" of {context} tokens"),
        _ => format!(" of up to {context} tokens"),
    };
    let shared = if shared_bytes > 0.0 {
        format!(", {} shared", bytes(shared_bytes))
    } else {
        String::new()
    };
    let gives = if is_read { "" } else { "gives " };
    Some(format!("KV cache: {gives}{tokens}{} a sequence{long}{shared}", bytes(sequence_bytes)))
}

fn step_line(inference: &Inference) -> String {
    let Row { attention_s, parameters_s, flops_s, step_s, tokens_per_s, plan_s, .. } =
        inference.step;
    let (rest, hidden) = if flops_s > parameters_s {
        (format!("FLOPs {}", seconds(flops_s)), format!("parameters {}", seconds(parameters_s)))
    } else {
        (format!("parameters {}", seconds(parameters_s)), format!("FLOPs {}", seconds(flops_s)))
    };
    let first = if inference.cache.is_read { "KV cache" } else { "attention" };
    format!(
        "step: at best {} = {first} {} + {rest} ({hidden}), {} tokens/s; this plan {}",
        seconds(step_s),
        seconds(attention_s),
        count(tokens_per_s),
        seconds(plan_s)
    )
}

fn critical_line(inference: &Inference) -> String {
    let dim = &inference.batch_dim;
    match inference.critical {
        None => format!(
            "critical batch: none; reading parameters takes longer than FLOPs at every size of \
                {dim}"
        ),
        Some(critical) => {
            let tokens = if (critical.tokens - critical.batch).abs() > 1e-6 * critical.tokens {
                format!(" ({} tokens)", count(critical.tokens))
            } else {
                String::new()
            };
            format!(
                "critical batch: FLOPs take longer than reading parameters above {dim} = \
                    {}{tokens}",
                number(critical.batch)
            )
        }
    }
}

fn largest_batch_line(inference: &Inference, capacity: f64) -> String {
    let dim = &inference.batch_dim;
    match inference.largest_batch {
        Some(0) => format!("largest batch: none fits into {} a device", bytes(capacity)),
        Some(largest) => {
            format!("largest batch: {dim} = {largest} fits into {} a device", bytes(capacity))
        }
        None => format!("largest batch: every one fits into {} a device", bytes(capacity)),
    }
}

fn row(row: &Row) -> String {
    let fits = match row.fits {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    let bound = match row.bound {
        "cache" => "KV cache",
        "flops" => "FLOPs",
        other => other,
    };
    let cells = [
        row.batch.to_string(),
        bytes(row.held_bytes),
        bytes(row.device_bytes as f64),
        seconds(row.step_s),
        count(row.tokens_per_s),
        seconds(row.plan_s),
        fits.to_owned(),
        bound.to_owned(),
    ];
    table::row(&COLUMNS, &cells)
}
