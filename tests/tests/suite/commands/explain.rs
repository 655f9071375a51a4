//! Explanations are complete and true: every collective has a cause, and every alternative has the
//! reported cost when it is applied.

use shardwise::explain::{Alternative, Causes, Explanation, Remedy, Target, explain};
use shardwise::{Options, Strategy};
use shardwise_passes::report::Report;
use shardwise_tests::files;
use shardwise_tests::random::numbers_of_case;

fn causes(name: &str, source: &str, options: &Options, target: &Target) -> Causes {
    match explain(name, source, options, target, &|_, _| ()) {
        Ok(Explanation::Plan(causes)) => causes,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_collective_has_a_cause() {
    let folders = ["tests/programs/book", "tests/programs/training", "tests/programs/open"];
    let mut reported = 0;
    for (name, source) in folders.iter().flat_map(|folder| files(folder, ".shard")) {
        for strategy in [Strategy::Search, Strategy::Textbook] {
            let options = Options { strategy, memory: Some(f64::INFINITY), ..Options::default() };
            for collective in causes(&name, &source, &options, &Target::Everything).collectives {
                assert!(!collective.from.who.is_empty(), "{name}: {collective:?}");
                let needs = &collective.needs;
                assert!(
                    needs.iter().any(|need| !need.because.is_empty()),
                    "{name} ({strategy:?}): {collective:#?}"
                );
                reported += 1;
            }
        }
    }
    assert!(reported > 100, "{reported}");
}

/// The program with an edit of its brackets typed on a line.
fn typed(source: &str, line: usize, edit: &str, is_use: bool) -> String {
    let (words, brackets) = edit.split_at(edit.find('[').expect("an edit has brackets"));
    let name = words
        .split_whitespace()
        .filter(|word| !["input", "param", "state", "output"].contains(word))
        .collect::<Vec<_>>()
        .join(" ");
    let bare = name.split(':').next().unwrap_or_default();
    let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
    let text = &mut lines[line - 1];
    let from = if is_use { text.find('=').map_or(0, |at| at + 1) } else { 0 };
    let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let ends = |at: usize| {
        !text[at + bare.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '\'')
    };
    let found = text[from..]
        .match_indices(bare)
        .map(|(at, _)| at + from)
        .find(|&at| begins(at) && ends(at));
    let start = found.unwrap_or_else(|| panic!("no `{bare}` in `{text}`"));
    let rest = &text[start..];
    let separator = rest
        .find(['=', '*', ',', '(', ')'])
        .filter(|end| rest.find('[').is_none_or(|open| *end < open));
    let end = match (rest.find('['), separator) {
        (Some(open), None) => open + rest[open..].find(']').expect("brackets close") + 1,
        _ => bare.len(),
    };
    let start_of_tail = start + end;
    let edited = format!("{}{name}{brackets}{}", &text[..start], &text[start_of_tail..]);
    *text = edited;
    lines.join("\n") + "\n"
}

fn report(name: &str, source: &str) -> Report {
    let planned = shardwise::plan(name, source, &Options::default())
        .unwrap_or_else(|findings| panic!("{name}: {findings}\n{source}"));
    planned.report
}

fn serial_s(name: &str, source: &str) -> f64 {
    report(name, source).serial_s
}

#[test]
fn alternatives_cost_what_they_say() {
    let mut tried = 0;
    for name in
        ["fsdp_tp", "mlp-2d", "book/p7-bad-fsdp", "book/p3-c2", "book/p3-a2a", "training/p5-mixed"]
    {
        let source = shardwise_tests::read(&format!("tests/programs/{name}.shard"));
        let planned =
            shardwise::plan(name, &source, &Options::default()).expect("a program of the book");
        for value in planned.plan.program.values.iter().map(|value| value.name.clone()) {
            for collective in
                causes(name, &source, &Options::default(), &Target::Value(value.clone()))
                    .collectives
            {
                for other in &collective.alternatives {
                    let Alternative { line, edit, change_s, peak_change_bytes, what, .. } = other;
                    let edited = typed(&source, *line, edit, what == "read");
                    let after = report(name, &edited);
                    let (change, more) = (
                        after.serial_s - planned.report.serial_s,
                        after.memory.peak_bytes - planned.report.memory.peak_bytes,
                    );
                    assert!(
                        (more - peak_change_bytes).abs() < 1.0,
                        "{name}: {edit} is {more} bytes, reported {peak_change_bytes}\n{edited}"
                    );
                    assert!(
                        (change - change_s).abs() <= 1e-6 * planned.report.serial_s,
                        "{name}: {edit} is {change}, reported {change_s}\n{edited}"
                    );
                    tried += 1;
                }
                if let Some(cure) = collective.cure.map(|cure| &collective.alternatives[cure]) {
                    let edited = typed(&source, cure.line, &cure.edit, cure.what == "read");
                    let after = shardwise::plan(name, &edited, &Options::default())
                        .expect("an edit that was offered");
                    assert!(
                        !after.to_string().contains(&collective.text),
                        "{name}: {} is still there after {}",
                        collective.text,
                        cure.edit
                    );
                }
            }
        }
    }
    assert!(tried > 50, "{tried}");
}

/// An open declaration leaves the gradient open, too; what the search chose for it, written out,
/// does not. Both are listed, each as it is priced.
#[test]
fn an_edit_is_listed_once_and_is_what_is_priced() {
    let source = "hardware tpu-v5p\nmesh X=8, Y=4\ndim B=49152, D=8192, F=32768\n\
        input In[B_X, D], dOut[B_X, D]\nparam Win[D_X, F_Y], Wout[F_Y, D_X]\nTmp = In *D Win\n\
        Out[B_X, D] = gelu(Tmp) *F Wout\nbackward from Out given dOut\n";
    let before = report("open", source);
    let reported = causes("open", source, &Options::default(), &Target::parse("Win")).collectives;
    let alternatives = &reported[0].alternatives;
    assert!(alternatives.iter().any(|other| other.edit.contains("D_?")), "{reported:#?}");
    for (number, other) in alternatives.iter().enumerate() {
        let again = alternatives[..number].iter().any(|earlier| earlier.edit == other.edit);
        assert!(!again, "{} is listed twice: {reported:#?}", other.edit);
        let after = report("open", &typed(source, other.line, &other.edit, other.what == "read"));
        assert!((after.serial_s - before.serial_s - other.change_s).abs() < 1e-9, "{other:?}");
    }
}

/// Data parallelism with sharded state.
const REPLICATED: &str = "hardware h100\nmesh X=8\ndim B=65536, D=4096, F=16384\n\
    input In[B_X, D], dOut[B_X, D]\nparam Win[D, F], Wout[F, D]\nTmp = gelu(In *D Win)\n\
    Out = Tmp *F Wout\nbackward from Out given dOut\noptimizer adam over X\n";

/// Sums of the same steps in another order differ by rounding.
#[test]
fn an_edit_that_only_rounds_otherwise_does_not_help() {
    let reported = causes("state", REPLICATED, &Options::default(), &Target::Everything);
    let summary = reported.summary.expect("the whole plan has one");
    for edit in &summary.helpful {
        assert!(edit.change_s < -1e-9 * summary.serial_s, "{edit:?}");
    }
}

#[test]
fn the_state_of_an_optimizer_is_declared_by_its_statement() {
    let reported = causes("state", REPLICATED, &Options::default(), &Target::parse("dWin"));
    let because: Vec<&String> = reported
        .collectives
        .iter()
        .flat_map(|of| &of.needs)
        .flat_map(|need| &need.because)
        .collect();
    let declared = "`F_X` is declared at line 9: `optimizer adam over X`, for its state `mWin`";
    assert!(because.iter().any(|line| *line == declared), "{because:#?}");
}

#[test]
fn a_product_is_quoted_with_the_parentheses_of_its_factors() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim B=1024, T=64, D=512, F=512\n\
        input Sent[B_X, T], X1[T, D]\nparam Win[D_X, F]\n\
        y = relu((Sent *T X1) *D Win) + 1\noutput y[B, F]\n";
    let reported = causes("quoted", source, &Options::default(), &Target::parse("Win"));
    let text = Explanation::Plan(reported).to_string();
    assert!(text.contains("needed by: line 6: `(Sent *T X1) *D Win`"), "{text}");
}

#[test]
fn a_summary_has_the_bubble_of_pipelines() {
    let source = "hardware h100\nmesh Z=4 ib, Y=8\ndim B=2048, D=8192, F=32768\n\
        input x[B, D], dy[B, D]\npipeline Z, microbatches=8 {\nrepeat L=8 {\ncarry x\n\
        param W1[D, F_Y], W2[F_Y, D]\nx = x + gelu(x *D W1) *F W2\n}\n}\n\
        backward from x given dy\noutput dx[B, D]\n";
    let summary = causes("stages", source, &Options::default(), &Target::Everything).summary;
    let summary = summary.expect("the whole plan has one");
    let steps_s = summary.compute_s + summary.comm_s + summary.bubble_s;
    assert!((summary.serial_s - steps_s).abs() < 1e-9 * steps_s, "{summary:?}");
    let first = summary.to_string().lines().next().unwrap_or_default().to_owned();
    assert!(first.contains(" + bubble ") && first.contains("; peak memory"), "{first}");
}

#[test]
fn what_does_not_fit_is_not_offered() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim B=1024, D=65536, F=65536\n\
        input In[B_X, D]\nparam W[D_X, F]\nOut = In *D W\noutput Out[B_X, F]\n";
    let edits = |memory: f64| -> Vec<String> {
        let options =
            Options { memory: Some(memory), strategy: Strategy::Textbook, ..Options::default() };
        let reported = causes("full", source, &options, &Target::parse("W"));
        let collective = &reported.collectives[0];
        for other in &collective.alternatives {
            let peak_bytes = reported.now_peak_bytes + other.peak_change_bytes;
            assert!(peak_bytes <= memory, "{other:?}");
        }
        collective.alternatives.iter().map(|other| other.edit.clone()).collect()
    };
    let all = edits(96e9);
    let least = causes("full", source, &Options::default(), &Target::parse("W")).now_peak_bytes;
    assert!(all.len() > edits(1.001 * least.max(10.9e9)).len(), "{all:?}");
}

fn remedies(source: &str) -> Vec<Vec<Remedy>> {
    match explain("conflict", source, &Options::default(), &Target::Everything, &|_, _| ()) {
        Ok(Explanation::Conflict(conflict)) => conflict.sets,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_conflict_is_as_small_as_it_can_be_and_each_way_out_is_one() {
    let source = "hardware tpu-v5p\nmesh X=4, Y=2\ndim I=64, J=64, K=64\n\
        input A[I_X, J], B[J, K_X]\nE = gelu(B)\nC[I_Y, K] = A[I_X, J] *J E[J, K_X]\n\
        D[I, K_X] = gelu(C[I_Y, K])\noutput D[I, K]\n";
    let sets = remedies(source);
    assert_eq!(sets.len(), 1, "{sets:?}");
    let written: Vec<&str> = sets[0].iter().map(|remedy| remedy.written.as_str()).collect();
    assert_eq!(written, ["A[I_X, J]", "E[J, K_X]"]);
    for remedy in &sets[0] {
        assert!(remedy.serial_s.is_some(), "{remedy:?}");
        assert!(
            shardwise::plan(
                "edited",
                &typed(source, remedy.line, &remedy.edit, true),
                &Options::default()
            )
            .is_ok(),
            "{remedy:?}"
        );
    }
}

#[test]
fn two_conflicts_are_two_sets() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim I=64, J=64, K=64\ninput A[I_X, J], B[J, K_X]\n\
        C = A[I_X, J] *J B[J, K_X]\nD[I_X, K_X] = gelu(C)\noutput D[I, K]\n";
    assert_eq!(remedies(source).iter().map(Vec::len).sum::<usize>(), 3);
}

#[test]
fn what_brackets_are_not_to_blame_for_stays_the_error_that_it_is() {
    let unknown = "hardware tpu-v5p\nmesh X=4\ndim I=64\ninput A[I_X]\nB = gelu(Q)\noutput B[I]\n";
    let findings =
        explain("unknown", unknown, &Options::default(), &Target::Everything, &|_, _| ())
            .expect_err("`Q` is not there");
    assert_eq!(findings.reports[0].diag.code, "SW101");
}

/// An axis may leave one dimension of what an operation reads, and another one stay whole.
#[test]
fn operands_that_several_axes_leave_are_explained() {
    let source = "hardware h100\nmesh Z=2 ib, X=4\ndim B=8192, D=4096, F=16384\n\
        input x[B, D], dy[B, D]\nrepeat L=4 {\ncarry x\nparam w1[D, F], w2[F, D], w3[D, F]\n\
        h = gelu(x *D w1) * (x *D w3)\nx = rmsnorm_D(x) + h *F w2\n}\n\
        backward from x given dy, gradients=f32\n";
    let causes = causes("gated", source, &Options::default(), &Target::Everything);
    assert!(!causes.collectives.is_empty());
}

#[test]
fn random_programs_are_explained_too() {
    let (mut collectives, mut alternatives) = (0, 0);
    for case in 0..40 {
        let source = shardwise_tests::random_program::program(&numbers_of_case(case), 2, 3);
        let options = Options { memory: Some(f64::INFINITY), ..Options::default() };
        let explanation =
            match explain("random", &source, &options, &Target::Everything, &|_, _| ()) {
                Err(_) => continue,
                Ok(Explanation::Plan(causes)) => causes,
                Ok(Explanation::Conflict(conflict)) => {
                    assert!(
                        conflict.sets.iter().flatten().all(|remedy| remedy.serial_s.is_some()),
                        "{conflict:?}\n{source}"
                    );
                    continue;
                }
                Ok(other) => panic!("there is memory without end: {other:?}\n{source}"),
            };
        for collective in &explanation.collectives {
            let free = collective.time_s == 0.0;
            assert!(
                free || collective.needs.iter().any(|need| !need.because.is_empty()),
                "{collective:#?}\n{source}"
            );
            collectives += 1;
        }
        let first = explanation.collectives.iter().find(|collective| collective.time_s > 0.0);
        let Some(value) = first.and_then(|collective| collective.text.split('[').next()) else {
            continue;
        };
        for collective in
            causes("random", &source, &options, &Target::Value(value.to_owned())).collectives
        {
            assert!(
                collective
                    .alternatives
                    .windows(2)
                    .take(5)
                    .all(|pair| pair[0].change_s <= pair[1].change_s),
                "{collective:#?}"
            );
            alternatives += collective.alternatives.len();
        }
    }
    assert!(
        collectives > 20 && alternatives > 20,
        "{collectives} collectives, {alternatives} alternatives"
    );
}

#[test]
fn brackets_at_a_use_are_a_cause_and_other_brackets_a_cure() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim I=8192, J=8192, K=8192\n\
        input A[I, J_X], B[J_X, K]\nC = A[I, J] *J B\noutput C[I, K_X]\n";
    let reported = causes("pinned", source, &Options::default(), &Target::Value("A".to_owned()));
    assert_eq!(reported.collectives[0].needs[0].because, ["its brackets are `A[I, J]`"]);
    let as_it_is = reported.collectives[0]
        .alternatives
        .iter()
        .find(|alternative| alternative.edit == "A[I, J_X]")
        .expect("it is offered");
    assert!(
        (as_it_is.line, as_it_is.removes_it) == (5, true) && as_it_is.change_s < 0.0,
        "{reported:#?}"
    );
}

#[test]
fn a_gradient_is_changed_where_its_value_is_computed() {
    let source = "hardware tpu-v5p\nmesh X=8, Y=4\ndim B=8192, D=8192, F=32768\n\
        input In[B_X, D], dOut[B_X, D]\nparam Win[D, F_Y], Wout[F_Y, D]\nTmp[B_X, F] = In *D Win\n\
        Act = gelu(Tmp)\nOut = Act *F Wout\nbackward from Out given dOut\noutput dWin[D, F_Y]\n";
    let collectives =
        causes("gradient", source, &Options::default(), &Target::parse("dOut")).collectives;
    let before = serial_s("gradient", source);
    let forward: Vec<&Alternative> = collectives
        .iter()
        .flat_map(|collective| &collective.alternatives)
        .filter(|other| other.what == "keep" && other.line == 7)
        .collect();
    assert!(!forward.is_empty(), "{collectives:#?}");
    for other in forward {
        let after = serial_s("gradient", &typed(source, other.line, &other.edit, false));
        assert!((after - before - other.change_s).abs() < 1e-9, "{other:?}");
    }
}
