//! Attention that is masked and experts that are routed: right numbers, and only what is not masked
//! counts.

use shardwise::verify::{Setup, verify};
use shardwise::{Options, Planned, Strategy};
use shardwise_tests::{files, read, statements};

fn plan(source: &str, strategy: Strategy) -> Planned {
    shardwise::plan("sparse", source, &Options { strategy, ..Options::default() })
        .unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn flops(planned: &Planned, value: &str) -> f64 {
    planned
        .json()
        .steps
        .iter()
        .filter(|step| step.value == value && step.kind == "einsum")
        .map(|step| step.flops)
        .sum()
}

/// How often a collective stands in a plan, forward and in all.
fn count(planned: &Planned, collective: &str, last_forward: &str) -> (usize, usize) {
    let lines = statements(&planned.to_string());
    let forward = lines
        .iter()
        .rposition(|line| line.starts_with(last_forward))
        .expect("the forward part ends");
    let in_lines = |lines: &[String]| lines.iter().filter(|line| line.contains(collective)).count();
    (in_lines(&lines[..=forward]), in_lines(&lines))
}

#[test]
fn causal_attention_counts_half_forward_and_backward() {
    let source = read("tests/programs/sparse/causal.shard");
    let masked = plan(&source, Strategy::Textbook);
    let full = plan(&source.replace("causal_{T,S}(L)", "copy(L)"), Strategy::Textbook);
    for product in ["L", "A", "dP", "dVs", "dKs", "dQ"] {
        assert!(
            (flops(&full, product) / flops(&masked, product) - 2.0).abs() < 1e-12,
            "{product}\n{masked}\n{full}"
        );
    }
    for product in ["Q", "z", "dWQ", "dA"] {
        assert!(
            (flops(&full, product) - flops(&masked, product)).abs() < 1.0,
            "{product}\n{masked}\n{full}"
        );
    }
    let again = plan(&masked.to_string(), Strategy::Search);
    assert_eq!(again.to_string(), masked.to_string());
}

#[test]
fn tokens_and_experts_over_one_axis_take_two_exchanges_each_way() {
    let source = read("tests/programs/sparse/moe.shard");
    for strategy in [Strategy::Textbook, Strategy::Search] {
        let planned = plan(&source, strategy);
        assert_eq!(count(&planned, "AllToAll", "Out["), (2, 4), "{planned}");
        assert_eq!(count(&planned, "AllGather", "Out["), (0, 0), "{planned}");
    }
}

#[test]
fn experts_count_the_slots_that_they_have_and_the_exchange_what_is_sent() {
    let planned = plan(&read("tests/programs/sparse/moe.shard"), Strategy::Textbook);
    // A device: 64 groups of tokens, one expert with 80 slots, 4096 to 16384 and back.
    let slots = 64.0 * 80.0;
    let expert = 2.0 * slots * 4096.0 * 16384.0;
    assert!(
        (flops(&planned, "H") - expert).abs() < 1.0 && (flops(&planned, "Y") - expert).abs() < 1.0,
        "{planned}"
    );
    // 4 groups of 512 tokens on a device, each to two experts.
    let sent = 2.0 * 4.0 * 512.0 * 2.0 * 4096.0;
    assert!(
        (flops(&planned, "In") - sent).abs() < 1.0 && (flops(&planned, "Out") - sent).abs() < 1.0,
        "{planned}"
    );
}

#[test]
fn what_is_masked_and_routed_gives_the_unsharded_numbers() {
    for (name, source) in files("tests/programs/sparse", ".shard") {
        for strategy in [Strategy::Textbook, Strategy::Search] {
            for seed in 1..4 {
                let options = Options { strategy, ..Options::default() };
                let verdict = verify(&name, &source, &options, &Setup { seed, ..Setup::default() })
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
                assert_eq!(verdict.undefined, 0, "{name}: {verdict}");
            }
        }
    }
}

/// Tokens on every device of the experts' axis: nothing is exchanged, each device computes what its
/// experts give, and the sum is reduced once.
#[test]
fn replicated_tokens_need_no_exchange() {
    let planned = plan(&read("tests/programs/sparse/moe-replicated.shard"), Strategy::Search);
    assert_eq!(count(&planned, "AllToAll", "Out["), (0, 0), "{planned}");
    let reductions =
        count(&planned, "AllReduce", "Out[").1 + count(&planned, "ReduceScatter", "Out[").1;
    assert_eq!(reductions, 1, "{planned}");
}
