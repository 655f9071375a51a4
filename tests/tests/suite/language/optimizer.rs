//! Optimizers: their memory, communication and results, each against the unsharded program, the
//! papers' formulas and the book's bytes.

use std::collections::BTreeMap;

use shardwise::verify::{Setup, Sizes, evaluate, verify};
use shardwise::{Options, Pass, Planned, Strategy, print_after};
use shardwise_ir::ids::ValueId;
use shardwise_ir::print::same;
use shardwise_ir::sharding::{Pin, Sharding};
use shardwise_passes::liveness::live_at;
use shardwise_passes::local_shape;
use shardwise_tests::facts::holds;
use shardwise_tests::properties::{checked_plans, plan};
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{files, read, statements};

fn searched(source: &str) -> Planned {
    plan("optimizer", source, Strategy::Search)
}

/// What must hold of every program with an optimizer.
fn is_right(name: &str, source: &str) {
    let options = Options::default();
    for pass in [Pass::Resolve, Pass::Optimizer] {
        let printed =
            print_after(name, source, &options, pass).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (before, after) =
            (shardwise::check(name, source, &options), shardwise::check(name, &printed, &options));
        let (before, after) = (
            before.program.expect(name),
            after.program.unwrap_or_else(|| panic!("{name}: {printed}")),
        );
        assert!(same(&before, &after), "{name}: {before}\n{after}");
    }
    let mut serial_s = Vec::new();
    for strategy in [Strategy::Search, Strategy::Textbook] {
        let options = Options { strategy, ..Options::default() };
        let verdict = verify(name, source, &options, &Setup::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            verdict.mismatch.is_none() && verdict.undefined == 0,
            "{name}: {verdict}\n{source}"
        );
        let planned = plan(name, source, strategy);
        assert_eq!(
            planned.to_string(),
            plan(name, &planned.to_string(), Strategy::Search).to_string(),
            "{name}"
        );
        serial_s.push(planned.report.serial_s);
    }
    assert!(serial_s[0] <= serial_s[1] * (1.0 + 1e-12), "{name}: {serial_s:?}");
}

#[test]
fn programs_with_optimizers_are_right_and_their_plans_kept() {
    for (name, source) in files("tests/programs/optimizer", ".shard") {
        is_right(&name, &source);
        let planned = plan(&name, &source, Strategy::Search);
        plan_snapshot("optimizer", &name, &planned);
    }
}

#[test]
fn the_programs_on_the_page_are_right() {
    let page = read("compiler/docs/optimizer.md");
    let blocks: Vec<&str> =
        page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 2, "the page has programs");
    for source in blocks {
        is_right("optimizer.md", source);
    }
}

/// An update alone: the gradient of `W` is `A`, a sum over `X`.
fn one(param: &str, optimizer: &str, more: &str) -> String {
    format!(
        "hardware tpu-v5p\nmesh X=8\ndim B=8, P=8192\ninput In[B_X], G[B_X, P]\nparam W[{param}]\n\
            Out = In * W\nbackward from Out given G\noptimizer {optimizer}\n{more}"
    )
}

/// Bytes a parameter and device: what stays, and the gradient as the update reads it.
fn bytes_per_parameter(param: &str, optimizer: &str, more: &str) -> f64 {
    let planned = searched(&one(param, optimizer, more));
    let program = &planned.plan.program;
    let update =
        planned.plan.steps.iter().find(|step| program.values[step.result.value].name == "mW.new");
    let gradient = &update.expect("the first moment is updated").operands[1];
    // A gradient that its author replicates is live beside the part that is read.
    let kept = if more.is_empty() { gradient.sharding.clone() } else { Sharding::replicated(1) };
    let gradient = local_shape::local_bytes(program, gradient.value, &kept);
    let cost = planned.cost();
    (cost.parameters.device_bytes + cost.state.device_bytes + gradient) / cost.parameters.elements
}

#[test]
fn the_stages_of_zero_hold_what_the_book_counts() {
    let whole = "output dW[P]\n";
    let stages = [
        ("P", "adam", whole),
        ("P", "adam over X", whole),
        ("P", "adam over X", ""),
        ("P_X", "adam", ""),
    ];
    holds(
        "P5-ZERO-MEM",
        &stages.map(|(param, optimizer, more)| bytes_per_parameter(param, optimizer, more)),
    );
}

#[test]
fn adam_holds_ten_bytes_a_parameter() {
    let held = |param: &str| {
        let cost = searched(&one(param, "adam", "")).cost();
        [cost.parameters.device_bytes + cost.state.device_bytes, cost.parameters.elements]
    };
    let [bytes, elements] = held("P");
    holds("P5-DP-ADAM", &[bytes / elements]);
    holds("P5-Q2-STATE", &[bytes / elements * 13e9]);
    let [bytes, elements] = held("P_X");
    holds("P5-MIX-MEM", &[8.0 * bytes / elements]);
}

#[test]
fn updates_take_the_place_of_what_they_update() {
    for (name, source) in files("tests/programs/optimizer", ".shard") {
        let plan = plan(&name, &source, Strategy::Search).plan;
        let declared = |value: ValueId| {
            plan.program.values[value].declared_sharding.as_ref().and_then(Pin::exact)
        };
        let updates =
            plan.program.outputs.iter().filter_map(|output| {
                Some((output.value, declared(plan.program.updates(output)?)?))
            });
        let updates: Vec<_> = updates.collect();
        assert!(updates.len() >= 4, "{name}");
        let live = live_at(&plan, plan.dataflow(), plan.steps.len() - 1);
        let beside = updates.iter().filter(|(value, declared)| {
            live.iter().any(|(of, _)| of.value == *value && of.sharding == *declared)
        });
        assert_eq!(beside.count(), 0, "{name}: {live:?}");
    }
}

#[test]
fn what_is_still_read_is_not_written_over() {
    let source = |last: &str| {
        format!(
            "hardware tpu-v5p\nmesh X=1\ndim P=1Mi\nparam W: f32[P]\ninput G: f32[P]\n\
                W2 = sgd_step(W, G, 0.1)\nnext W = W2\n{last}"
        )
    };
    let peak = |last: &str| searched(&source(last)).report.memory.peak_bytes;
    assert!(
        (peak("S = sum_P(G)\noutput S[]\n") - 8.0 * 1_048_576.0).abs() < 8.0,
        "one array and what it is updated by"
    );
    assert!(
        peak("S = sum_P(W)\noutput S[]\n") > 11.9 * 1_048_576.0,
        "the old one is read after the update"
    );
}

#[test]
fn state_over_an_axis_turns_a_reduction_into_a_scatter_and_a_gather() {
    let kinds_by = |name: &str, strategy: Strategy| {
        let planned =
            plan(name, &read(&format!("tests/programs/optimizer/{name}.shard")), strategy);
        let kinds = statements(&planned.plan.to_string()).into_iter().filter_map(|line| {
            let call = line.split(" = ").nth(1)?.split(['_', '(']).next()?.to_owned();
            ["AllGather", "AllReduce", "ReduceScatter"].contains(&call.as_str()).then_some(call)
        });
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        kinds.for_each(|kind| *counts.entry(kind).or_default() += 1);
        counts.into_iter().collect::<Vec<_>>()
    };
    let kinds = |name: &str| kinds_by(name, Strategy::Search);
    let count = |kind: &str, n: usize| (kind.to_owned(), n);
    assert_eq!(kinds("zero2"), [count("AllGather", 2), count("ReduceScatter", 2)]);
    assert_eq!(kinds("zero3"), [count("AllGather", 2), count("ReduceScatter", 2)]);
    assert_eq!(
        kinds_by("zero1", Strategy::Textbook),
        [count("AllGather", 2), count("AllReduce", 2)]
    );
    assert_eq!(kinds_by("zero2", Strategy::Textbook), kinds("zero2"));
    assert_eq!(
        kinds_by("zero3", Strategy::Textbook),
        [count("AllGather", 3), count("ReduceScatter", 2)],
        "one is gathered once more"
    );
    assert_eq!(kinds("open"), kinds("zero2"), "the search finds the same by itself");
}

/// One step on one parameter, computed by the program.
fn step(optimizer: &str, given: &[(&str, f64)]) -> BTreeMap<String, f64> {
    let source = format!(
        "hardware tpu-v5p\nmesh X=1\ndim P=1\nparam W: f32[P]\ninput G: f32[P]\nOut = 1.0 * W\n\
            backward from Out given G\noptimizer {optimizer}\n"
    );
    let program = shardwise::check("step", &source, &Options::default()).program.expect(&source);
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), vec![*value])).collect();
    evaluate(&program, &given)
        .expect("all is declared")
        .into_iter()
        .map(|(name, values)| (name, values[0]))
        .collect()
}

#[test]
fn updates_are_those_of_the_papers() {
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    let (w, g, m, v) = (2.0_f64, 0.5, 0.3, 0.04);
    let after = step(
        "adamw, rate=0.01, beta1=0.8, beta2=0.9, eps=1e-3, decay=0.1",
        &[("W", w), ("G", g), ("mW", m), ("vW", v)],
    );
    let (m1, v1) = (0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g);
    near(after["mW.new"], m1);
    near(after["vW.new"], v1);
    near(after["W.new"], w - 0.01 * (m1 / (v1.sqrt() + 1e-3) + 0.1 * w));
    let after = step("sgd, momentum=0.9, rate=0.1", &[("W", w), ("G", g), ("mW", m)]);
    near(after["mW.new"], 0.9 * m + g);
    near(after["W.new"], w - 0.1 * (0.9 * m + g));
    near(step("sgd, rate=0.1", &[("W", w), ("G", g)])["W.new"], w - 0.1 * g);
    let after =
        step("adam, master=f32", &[("W", w), ("W.master", 3.0), ("G", g), ("mW", m), ("vW", v)]);
    near(after["W.new"], after["W.master.new"]);
    assert!(after["W.new"] > 2.9, "the copy is what is updated");
}

/// Row-wise Adagrad: a row moves by its gradient over the root of the sum of its mean squares, and
/// a row that no index names stays.
#[test]
fn rows_of_tables_are_updated_where_they_are_looked_up() {
    let source = "hardware tpu-v5p\nmesh X=1\ndim B=3, V=4, D=2\n\
        input ids: int32[B], g: f32[B, D]\nparam E: f32[V, D]\nx = take_V(E, ids)\n\
        backward from x given g\noptimizer adam, tables=0.1\n";
    let program = shardwise::check("rows", source, &Options::default()).program.expect("resolves");
    let table = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let given = [
        ("ids", vec![2.0, 0.0, 2.0]),
        ("g", vec![0.5, -0.5, 1.0, 2.0, 0.25, 0.75]),
        ("E", table.to_vec()),
        ("sE", vec![0.1, 0.2, 0.3, 0.4]),
    ];
    let given = given.into_iter().map(|(name, values)| (name.to_owned(), values)).collect();
    let after = evaluate(&program, &given).expect("all is declared");
    let gradient = [[1.0_f64, 2.0], [0.0, 0.0], [0.75, 0.25], [0.0, 0.0]];
    for (row, gradient) in gradient.iter().enumerate() {
        let sum =
            0.1 * (row as f64 + 1.0) + f64::midpoint(gradient[0].powi(2), gradient[1].powi(2));
        assert!((after["sE.new"][row] - sum).abs() < 1e-12, "{row}");
        for (place, gradient) in gradient.iter().enumerate() {
            let at = 2 * row + place;
            let expected = table[at] - 0.1 * gradient / (sum.sqrt() + 1e-8);
            assert!((after["E.new"][at] - expected).abs() < 1e-12, "{row} {place}");
        }
    }
}

/// The update of a table costs the rows that a step looks up: twice as long a table takes as long,
/// and a table that is read otherwise, or updated by its momentum, is updated as a whole.
#[test]
fn updates_of_tables_cost_the_rows_that_are_looked_up() {
    let plan_of = |rows: u64, uses: &str, optimizer: &str| {
        searched(&format!(
            "hardware h100\nmesh X=8\ndim B=65536, D=128, V={rows}\n\
            input ids: int32[B_X], dx[B_X, D]\nparam E[V_X, D]\n{uses}\n\
            backward from x given dx\noptimizer {optimizer}\n"
        ))
    };
    let lookup = "x[B_X, D] = take_V(E, ids)";
    let cost = |planned: &Planned| planned.report.serial_s;
    let gradients = |planned: &Planned| {
        let held = planned.json().memory.held;
        held.iter().filter(|held| held.kind == "gradients").map(|held| held.bytes).sum::<u64>()
    };
    let [short, long] =
        [1_000_000, 8_000_000].map(|rows| plan_of(rows, lookup, "sgd, tables=0.01"));
    assert!((cost(&short) / cost(&long) - 1.0).abs() < 1e-9, "{short}\n{long}");
    assert!(gradients(&short).abs_diff(gradients(&long)) <= 8, "{short}\n{long}");
    let dense = plan_of(8_000_000, lookup, "sgd");
    assert!(cost(&dense) > 3.0 * cost(&long), "{dense}\n{long}");
    assert!(gradients(&dense) > 20 * gradients(&long), "{dense}\n{long}");
    let tied = "y[B_X, D] = take_V(E, ids)\nx[B_X, D] = y + sum_V(y *D E) * y";
    let tied = plan_of(1_000_000, tied, "sgd, tables=0.01");
    assert!(tied.to_string().contains("sgd_step(E"), "{tied}");
    // Two lookups of one table name the rows of both.
    let twice = "x[B_X, D] = take_V(E, ids) + take_V(E, ids + 1)";
    let twice = plan_of(8_000_000, twice, "sgd, tables=0.01");
    assert!(twice.to_string().contains("row_step(E"), "{twice}");
    assert!(gradients(&twice) < gradients(&dense) / 5, "{twice}");
}

#[test]
fn gradients_have_the_dtype_that_the_program_gives() {
    let source = read("tests/programs/optimizer/gradients-f32.shard");
    let plan = plan("gradients", &source, Strategy::Search).plan;
    let dtype = |name: &str| {
        let value = plan.program.values.iter().find(|value| value.name == name);
        value.unwrap_or_else(|| panic!("{name}")).dtype.name()
    };
    for gradient in ["dWin", "dWout", "db", "dWin.part"] {
        assert_eq!(dtype(gradient), "f32", "{gradient}");
    }
    assert_eq!((dtype("dx"), dtype("Win.new")), ("bf16", "bf16"));
}

#[test]
fn gradients_are_kept_through_the_step_where_the_program_says_so() {
    let layers = |until: &str| {
        format!(
            "hardware tpu-v5p\nmesh X=4\ndim B=64, D=512, F=2048\ninput x[B_X, D], dy[B_X, D]\n\
             repeat L=6 {{\n  carry x\n  param Win[D_X, F], Wout[F, D_X]\n\
             \x20 x[B_X, D] = x + gelu(x *D Win) *F Wout\n}}\n\
             backward from x given dy{until}\noptimizer adam\n"
        )
    };
    let gradients = 6.0 * 2.0 * 2.0 * 512.0 * 2048.0 / 4.0;
    let peak = |source: &str| searched(source).report.memory.peak_bytes;
    let freed = peak(&layers(", until=update"));
    assert_eq!(
        peak(&layers("")).to_bits(),
        freed.to_bits(),
        "freed at peak rates, unless the program says otherwise"
    );
    let kept = searched(&layers(", until=step"));
    let more = kept.report.memory.peak_bytes - freed;
    assert!(more > 0.5 * gradients && more <= gradients, "{more} of {gradients}");
    assert!(kept.to_string().contains("phase backward, until=step\n"), "{kept}");
    is_right("until", &layers(", until=step"));
    let measured =
        |until: &str| peak(&layers(until).replace("tpu-v5p", "tpu-v5p, rates=measured")).to_bits();
    assert_eq!(measured(""), measured(", until=step"), "kept at measured rates");
    assert_ne!(measured(""), measured(", until=update"));
}

#[test]
fn losses_on_gpus_hold_copies_of_their_logits_at_measured_rates() {
    let source = |rates: &str| {
        format!(
            "hardware h100{rates}\nmesh X=4\ndim B=4096, D=512, V=32000\ninput x[B_X, D]\n\
             param W[D, V]\nLoss = sum_B(logsumexp_V(x *D W))\nbackward from Loss, until=update\n\
             optimizer sgd\n"
        )
    };
    let peak = |rates: &str| searched(&source(rates)).report.memory.peak_bytes;
    let copies = 12.0 * 4096.0 / 4.0 * 32000.0;
    let more = peak(", rates=measured") - peak("");
    assert!(
        (0.9 * copies..=1.1 * copies).contains(&more),
        "{more} of {copies}: another step is the worst"
    );
}

/// The textbook replicates a state that is left open; what moves the parameter is split for that.
#[test]
fn a_state_is_in_the_next_step_where_its_plan_declares_it() {
    let source = "hardware tpu-v5p\nmesh X=2, W=2\ndim B=1024, D=64, F=512\n\
        input x[B, D]\nparam w[D, F_X]\ny = sum_{B,F}(x *D w)\n\
        backward from y\noptimizer sgd over _?, momentum=0.9\n";
    let [_, textbook] = checked_plans("open state", source, Sizes::Scaled);
    let text = textbook.to_string();
    assert!(text.contains("mw.new[D, F_X] = Slice_X(mw.new[D, F])"), "{text}");
    assert!(text.contains("next mw[D, F] = mw.new[D, F]\n"), "{text}");
}
