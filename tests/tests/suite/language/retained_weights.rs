//! Retained weights of microbatches: gathered once per step where all layers fit into memory, else
//! in each microbatch.

use shardwise::json::{PlanJson, StepJson};
use shardwise::verify::Sizes;
use shardwise::{Options, Planned, Strategy};
use shardwise_tests::properties::{checked_plans, plan};
use shardwise_tests::{close, read};

fn fixture(name: &str) -> String {
    read(&format!("tests/programs/{name}.shard"))
}

fn within(name: &str, source: &str, bytes: f64) -> Planned {
    let options = Options { memory: Some(bytes), ..Options::default() };
    shardwise::plan(name, source, &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The moves of a parameter, slices apart.
fn moves(plan: &PlanJson, of: &str) -> Vec<StepJson> {
    plan.steps
        .iter()
        .filter(|step| {
            step.value == of && step.time_s > 0.0 && step.text.contains(&format!("({of}["))
        })
        .cloned()
        .collect()
}

/// The same plan, its author holding nothing.
fn without_holds(planned: &Planned) -> Planned {
    let text: String = planned
        .to_string()
        .split_inclusive('\n')
        .filter(|line| !line.trim_start().starts_with("hold "))
        .collect();
    plan("without", &text, Strategy::Search)
}

#[test]
fn the_first_microbatch_gathers_for_all() {
    let [found, textbook] = checked_plans("held", &fixture("microbatches/held"), Sizes::Scaled);
    let (gathers, each) = (moves(&found.json(), "Win"), moves(&textbook.json(), "Win"));
    assert!(gathers.len() == 1 && gathers[0].times == 8, "{found}");
    // Layer by layer, forward and back, four times.
    assert!(each.len() == 2 && each.iter().all(|step| step.times == 4 * 8), "{textbook}");
    assert!(
        found.to_string().contains("hold Win[D, F]\n") && !textbook.to_string().contains("hold "),
        "{found}"
    );
}

#[test]
fn what_is_not_held_is_made_for_each_microbatch() {
    let held = plan("held", &fixture("microbatches/held"), Strategy::Search);
    let made = without_holds(&held);
    let gathered_s: f64 = ["Win", "Wout"]
        .iter()
        .flat_map(|of| moves(&held.json(), of))
        .map(|step| step.times as f64 * step.time_s)
        .sum();
    assert!(close(made.report.serial_s - held.report.serial_s, 3.0 * gathered_s), "{made}");
    // Held or not, a microbatch has all of them between its way forward and back.
    let peak = |planned: &Planned| planned.report.memory.peak_bytes;
    assert!(peak(&made) <= peak(&held), "{} {}", peak(&made), peak(&held));
}

#[test]
fn weights_are_not_retained_where_they_do_not_fit() {
    for name in ["microbatches/held", "pipelines/fsdp"] {
        let source = fixture(name);
        let free = plan(name, &source, Strategy::Search);
        let roomy = &free.report.memory;
        let tight = roomy.resident_bytes + 0.35 * (roomy.peak_bytes - roomy.resident_bytes);
        let found = within(name, &source, tight);
        assert!(
            found.report.memory.peak_bytes <= tight && found.report.serial_s > free.report.serial_s,
            "{name}: {found}"
        );
        let held = |planned: &Planned| -> Vec<String> {
            planned
                .to_string()
                .lines()
                .filter(|line| line.trim_start().starts_with("hold "))
                .map(str::to_owned)
                .collect()
        };
        assert!(
            held(&found) != held(&free) && held(&found).len() <= held(&free).len(),
            "{name}: {found}"
        );
        assert_eq!(
            within(name, &found.to_string(), tight).to_string(),
            found.to_string(),
            "{name}"
        );
    }
}

#[test]
fn what_its_author_holds_stays() {
    let [found, textbook] =
        checked_plans("by-hand", &fixture("microbatches/held-by-hand"), Sizes::Scaled);
    for planned in [&found, &textbook] {
        let gathers = moves(&planned.json(), "Win");
        assert!(
            planned.to_string().contains("hold Win[D, F]\n")
                && gathers.iter().any(|step| step.times == 8),
            "{planned}"
        );
    }
}

#[test]
fn a_stage_that_holds_less_needs_less_and_moves_more() {
    let held = plan("fsdp", &fixture("pipelines/fsdp"), Strategy::Textbook);
    let made = without_holds(&held);
    let (once, each) = (moves(&held.json(), "Win"), moves(&made.json(), "Win"));
    assert!(once.len() == each.len() && !once.is_empty(), "{held}");
    for (once, each) in once.iter().zip(&each) {
        // Eight layers a stage, sixteen microbatches.
        assert_eq!((once.times, each.times), (8, 8 * 16), "{held}");
    }
    assert!(made.report.memory.peak_bytes < held.report.memory.peak_bytes, "{made}");
}
