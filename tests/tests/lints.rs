//! Lints do what their pages say: the trigger fires exactly that lint, the cure fires none, and safe edits change nothing that is computed.

use std::collections::BTreeMap;

use shardwise::lint::{self, Fix, Level, Levels, Lint, Linted, Safety, Selector, Settings};
use shardwise::verify::{self, Setup};
use shardwise::{AxisSize, DimSize, Options, Program, codes};
use shardwise_ir::program::Value;
use shardwise_tests::drawn;

/// The settings under which a lint's page is right: the default ones, and the lint itself on.
fn settings(lint: &Lint) -> Settings {
    let mut settings = Settings::default();
    let selector: Selector = lint.code.parse().expect("a code is a selector");
    if lint.level == Level::Allow {
        settings.layer(Levels { warn: vec![selector], ..Levels::default() });
    }
    settings
}

fn run(lint: &Lint, program: &str) -> Linted {
    let name = format!("{}.shard", lint.name);
    lint::lint(&name, program, &Options::default(), &settings(lint))
}

fn codes_of(linted: &Linted) -> Vec<&'static str> {
    linted.findings.iter().map(|finding| finding.diag.code).collect()
}

#[test]
fn every_trigger_fires_its_lint_and_no_other() {
    let others = lint::all().iter().filter_map(|lint| {
        let found = codes_of(&run(lint, lint.trigger));
        let exact = !found.is_empty() && found.iter().all(|code| *code == lint.code);
        (!exact).then(|| format!("{} {}: {found:?}", lint.code, lint.name))
    });
    let others: Vec<String> = others.collect();
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn every_cure_is_clean() {
    for lint in lint::all() {
        let linted = run(lint, lint.cure);
        assert!(linted.findings.is_empty(), "{} {}:\n{}", lint.code, lint.name, drawn(&linted.reports()));
    }
}

#[test]
fn findings_look_like_this() {
    for lint in lint::all() {
        let text = drawn(&run(lint, lint.trigger).reports());
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "../programs/lints"}, {
            insta::assert_snapshot!(format!("{}-{}", lint.code.to_lowercase(), lint.name), text);
        });
    }
}

#[test]
fn codes_and_names_are_unique_and_in_order() {
    let lints: Vec<&str> = lint::all().iter().map(|lint| lint.code).collect();
    let mut sorted = lints.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(lints, sorted);
    let mut names: Vec<&str> = lint::all().iter().map(|lint| lint.name).chain(codes::all().map(|code| code.name)).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    assert!(codes::all().all(|code| !lints.contains(&code.code)));
}

/// A program at sizes at which all of it can be computed: two devices an axis, 16 elements a dimension.
fn small(name: &str, source: &str) -> Program {
    let whole = shardwise::check(name, source, &Options::default()).program.unwrap_or_else(|| panic!("{name}: {source}"));
    let mesh = whole.mesh.axes.iter().map(|axis| AxisSize { name: axis.name.clone(), size: 2, over: None });
    let plain = whole.dims.iter().filter(|dim| dim.factors.is_empty());
    let dims = plain.map(|dim| DimSize { name: dim.name.clone(), size: 16 });
    let options = Options { mesh: mesh.collect(), dims: dims.collect(), ..Options::default() };
    shardwise::check(name, source, &options).program.unwrap_or_else(|| panic!("{name}: {source}"))
}

/// Every output of a program by name, computed from data that depend on names alone.
fn outputs(program: &Program) -> BTreeMap<String, Vec<f64>> {
    let declared = program.values.iter().filter(|value| value.producer.is_none());
    let elements = |value: &Value| value.dims.iter().map(|&dim| program.dims[dim].size as usize).product::<usize>();
    let letters = |name: &str| name.bytes().map(usize::from).sum::<usize>();
    let data = |value: &Value| (0..elements(value)).map(|i| ((i * 7 + letters(&value.name)) % 11) as f64 - 5.0).collect();
    let given = declared.map(|value| (value.name.clone(), data(value))).collect();
    let mut values = verify::evaluate(program, &given).expect("all declared values are given");
    let names: Vec<&str> = program.outputs.iter().map(|output| program.values[output.value].name.as_str()).collect();
    values.retain(|name, _| names.contains(&name.as_str()));
    values
}

/// The edited program gives the same outputs, and its plan, run on simulated devices, gives what it says.
fn computes_the_same(name: &str, original: &str, fixed: &str) {
    assert_eq!(outputs(&small(name, original)), outputs(&small(name, fixed)), "{name}: {fixed}");
    let verdict = verify::verify(name, fixed, &Options::default(), &Setup::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(verdict.mismatch.is_none(), "{name}: {verdict}\n{fixed}");
}

#[test]
fn safe_edits_leave_what_is_computed_and_nothing_to_edit() {
    let mut safe = 0;
    for lint in lint::all() {
        let before = run(lint, lint.trigger);
        let is_safe = |fix: &Fix| fix.safety == Safety::Safe;
        if !before.findings.iter().filter_map(|finding| finding.fix.as_ref()).any(is_safe) {
            continue;
        }
        let (after, count) = lint::fixed(before, &Options::default(), &settings(lint));
        assert!(count > 0 && codes_of(&after).iter().all(|code| *code != lint.code), "{}: {}", lint.code, after.source);
        computes_the_same(lint.code, lint.trigger, &after.source);
        let (again, more) = lint::fixed(after.clone(), &Options::default(), &settings(lint));
        assert_eq!((again.source, more), (after.source, 0), "{}", lint.code);
        safe += 1;
    }
    assert!(safe > 3);
}
