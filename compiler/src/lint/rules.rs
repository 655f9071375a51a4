//! The table of lints, one file each, in the order of their codes.
//!
//! Each file is the lint's page, a bad and a good example (whole programs, which a test runs), and
//! its check. A new lint is a file, its `mod` and its row here. Analyses that several checks share
//! are in `lint::analysis`.

mod all_reduce_for_scatter;
mod axis_not_as_named;
mod axis_without_wraparound;
mod causal_imbalance;
mod communication_bound;
mod data_parallel_decode;
mod fsdp_in_decode;
mod gather_then_slice;
mod gathered_for_statistics;
mod gathered_twice;
mod latency_bound;
mod memory_near_limit;
mod more_ways_than_heads;
mod partial_output;
mod pinned_whole;
mod product_keeps_all;
mod reduced_in_microbatches;
mod repeated_work;
mod replicated;
mod reshape_moves;
mod round_trip;
mod shadowed_name;
mod small_shard;
mod sum_keeps_all;
mod summed_before_backward;
mod tensor_parallel_over_slow;
mod uneven_size;
mod unknown_allow;
mod unused_allow;
mod unused_axis;
mod unused_dimension;
mod unused_value;
mod vacuous_assert;
mod weights_over_slow;
mod wide_over_slow;

use super::definition::Lint;

const ALL: &[Lint] = &[
    pinned_whole::LINT,
    all_reduce_for_scatter::LINT,
    gather_then_slice::LINT,
    gathered_twice::LINT,
    round_trip::LINT,
    gathered_for_statistics::LINT,
    partial_output::LINT,
    wide_over_slow::LINT,
    tensor_parallel_over_slow::LINT,
    fsdp_in_decode::LINT,
    data_parallel_decode::LINT,
    latency_bound::LINT,
    communication_bound::LINT,
    weights_over_slow::LINT,
    more_ways_than_heads::LINT,
    reshape_moves::LINT,
    reduced_in_microbatches::LINT,
    repeated_work::LINT,
    small_shard::LINT,
    uneven_size::LINT,
    product_keeps_all::LINT,
    causal_imbalance::LINT,
    sum_keeps_all::LINT,
    replicated::LINT,
    memory_near_limit::LINT,
    axis_without_wraparound::LINT,
    axis_not_as_named::LINT,
    unused_axis::LINT,
    unused_dimension::LINT,
    unused_value::LINT,
    shadowed_name::LINT,
    vacuous_assert::LINT,
    summed_before_backward::LINT,
    unused_allow::LINT,
    unknown_allow::LINT,
];

/// All lints, in the order of their codes.
pub fn all() -> &'static [Lint] {
    ALL
}

/// The lint whose code or name is `word`, in any case.
pub fn find(word: &str) -> Option<&'static Lint> {
    all()
        .iter()
        .find(|lint| lint.code.eq_ignore_ascii_case(word) || lint.name.eq_ignore_ascii_case(word))
}
