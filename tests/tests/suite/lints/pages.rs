//! The pages of lints are true: the bad example triggers exactly that lint, the good one none, and
//! safe edits change nothing that is computed.

use shardwise::lint::{self, Config, Fix, Level, Levels, Lint, Linted, Safety, Selector, Settings};
use shardwise::verify::{self, Setup};
use shardwise::{Options, codes};
use shardwise_tests::snapshot::snapshot;
use shardwise_tests::{drawn, read, small_sizes};

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
        let found = codes_of(&run(lint, lint.bad_example));
        let exact = !found.is_empty() && found.iter().all(|code| *code == lint.code);
        (!exact).then(|| format!("{} {}: {found:?}", lint.code, lint.name))
    });
    let others: Vec<String> = others.collect();
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn every_cure_is_clean() {
    for lint in lint::all() {
        let linted = run(lint, lint.good_example);
        assert!(
            linted.findings.is_empty(),
            "{} {}:\n{}",
            lint.code,
            lint.name,
            drawn(&linted.reports())
        );
    }
}

fn linted(source: &str) -> Linted {
    lint::lint("program", source, &Options::default(), &Settings::default())
}

/// Brackets on the left side ask for all of a value that leaves in parts, declared elsewhere.
#[test]
fn outputs_may_be_pinned_where_they_are_defined() {
    let found = |brackets: &str, leaving: &str| {
        let source = format!(
            "hardware tpu-v5p\nmesh X=4, Y=4\ndim B=8192, D=8192, F=32768\ninput In[B_X, D]\n\
             param Win[D, F_Y]\nh{brackets} = In *D Win\noutput h{leaving}\n"
        );
        codes_of(&linted(&source)).contains(&"SW301")
    };
    assert!(found("[B, F]", "[B_X, F_Y]"));
    assert!(!found("", "[B_X, F_Y]") && !found("", "[B, F]") && !found("[B, F]", "[B, F]"));
}

/// Work is repeated since an output is asked for on every device.
#[test]
fn repeated_work_names_the_output_that_asks_for_it() {
    let source = "hardware h100\nmesh dp=4, tp=4\ndim B=4096, D=2048, F=8192, G=2048\n\
        input x[B_dp, D]\nparam U[D, F_tp], V[F_tp, D], W[D, G]\nc[B_?, D_?, F_?] = x * U\n\
        y = gelu(x *D U) *F V\ng = x *D W\noutput c[B_dp, D, F], y[B_dp, D], g[B_dp, G]\n";
    let shown = drawn(&linted(source).reports());
    assert!(shown.contains("as `output c[B_dp, "), "{shown}");
}

#[test]
fn no_axis_is_unused_where_the_search_may_take_it() {
    let lint = lint::all().iter().find(|lint| lint.code == "SW351").expect("it is a lint");
    for open in ["In[B_X, D_?]", "In[B_{X,?}, D]"] {
        let program = lint.bad_example.replace("In[B_X, D]", open);
        assert_eq!(codes_of(&run(lint, &program)), [""; 0], "{open}");
    }
}

/// From factors to other factors a reshape has two steps, with a value between that has no name.
#[test]
fn a_reshape_of_two_steps_is_that_of_the_value_which_is_written() {
    let lint = lint::all().iter().find(|lint| lint.code == "SW316").expect("it is a lint");
    let program = "hardware tpu-v5p\nmesh Y=8\n\
        dim B=4096, H=128, P=8, Q=4, R=8, A=P*Q, C=Q*R\ninput In[B, P, C_Y, H]\n\
        Out[B, A, R_Y, H] = reshape(In)\noutput Out[B, A, R_Y, H]\n";
    let linted = run(lint, program);
    assert_eq!(codes_of(&linted), ["SW316"]);
    let shown = drawn(&linted.reports());
    assert!(shown.contains("the reshape of `In` moves data"), "{shown}");
    assert!(shown.contains("only the major factor `P` keeps its axes"), "{shown}");
    assert!(!shown.contains("Out.1"), "{shown}");
}

#[test]
fn findings_look_like_this() {
    for lint in lint::all() {
        let text = drawn(&run(lint, lint.bad_example).reports());
        let name = format!("{}-{}", lint.code.to_lowercase(), lint.name);
        snapshot("lints", &name, &text);
    }
}

#[test]
fn codes_and_names_are_unique_and_in_order() {
    let lints: Vec<&str> = lint::all().iter().map(|lint| lint.code).collect();
    let mut sorted = lints.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(lints, sorted);
    let mut names: Vec<&str> = lint::all()
        .iter()
        .map(|lint| lint.name)
        .chain(codes::all().map(|code| code.name))
        .collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    assert!(codes::all().all(|code| !lints.contains(&code.code)));
}

/// The edited program gives the same outputs, and its plan, run on simulated devices, gives what it
/// says.
fn computes_the_same(name: &str, original: &str, fixed: &str) {
    let outputs = |source: &str| {
        small_sizes::outputs(
            &small_sizes::program(name, source).unwrap_or_else(|| panic!("{name}: {source}")),
        )
    };
    assert_eq!(outputs(original), outputs(fixed), "{name}: {fixed}");
    let verdict = verify::verify(name, fixed, &Options::default(), &Setup::default())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(verdict.mismatch.is_none(), "{name}: {verdict}\n{fixed}");
}

#[test]
fn safe_edits_leave_what_is_computed_and_nothing_to_edit() {
    let mut safe = 0;
    for lint in lint::all() {
        let before = run(lint, lint.bad_example);
        let is_safe = |fix: &Fix| fix.safety == Safety::Safe;
        if !before.findings.iter().filter_map(|finding| finding.fix.as_ref()).any(is_safe) {
            continue;
        }
        let (after, count) = lint::fixed(before, &Options::default(), &settings(lint));
        assert!(
            count > 0 && codes_of(&after).iter().all(|code| *code != lint.code),
            "{}: {}",
            lint.code,
            after.source
        );
        computes_the_same(lint.code, lint.bad_example, &after.source);
        let (again, more) = lint::fixed(after.clone(), &Options::default(), &settings(lint));
        assert_eq!((again.source, more), (after.source, 0), "{}", lint.code);
        safe += 1;
    }
    assert!(safe > 3);
}

#[test]
fn a_sum_that_is_written_whole_and_sliced_becomes_a_scatter() {
    let program = "plan\nhardware tpu-v5p\nmesh X=4\ndim B=64, D=64, F=64\ninput In[B, F_X]\n\
        param W[F_X, D]\nSum[B, D] {U_X} = In[B, F_X] *F W[F_X, D]\n\
        Sum[B, D] = AllReduce_X(Sum[B, D] {U_X})\nSum[B, D_X] = Slice_X(Sum[B, D])  # a part\n\
        output Sum[B, D_X]\n";
    let before = lint::lint("sum.shard", program, &Options::default(), &Settings::default());
    assert_eq!(codes_of(&before), ["SW302"]);
    let (after, _) = lint::fixed(before, &Options::default(), &Settings::default());
    assert!(
        after.source.contains("\nSum[B, D_X] = ReduceScatter_{X,D}(Sum[B, D] {U_X})\n  # a part\n"),
        "{}",
        after.source
    );
    assert!(after.findings.is_empty(), "{}", drawn(&after.reports()));
    computes_the_same("sum.shard", program, &after.source);
}

#[test]
fn a_sum_that_can_wait_for_all_microbatches_is_reported_once_and_only_where_it_fits() {
    let lint = lint::find("SW317").expect("a lint");
    let head = lint.bad_example.split_once("microbatches").expect("a block").0;
    let written = format!(
        "plan\n{head}microbatches B=B'*8 {{\nRows[B'_X, D] = part(In[B_X, D])\n\
            dRows[B'_X, F] = part(dOut[B_X, F])\n\
            dPart[D, F] {{U_X}} = Rows[B'_X, D] *B' dRows[B'_X, F]\n\
            dPart[D_X, F] = ReduceScatter_{{X,D}}(dPart[D, F] {{U_X}})\n}}\n\
            dW[D_X, F] = total(dPart[D_X, F])\noutput dW[D_X, F]\n"
    );
    let summed = lint.bad_example.replace("D_X, F]", "D, F]");
    let at_the_use = lint
        .bad_example
        .replace("dPart[D_X, F] =", "dPart =")
        .replace("total(dPart)", "total(dPart[D_X, F])");
    for source in [&written, &summed, &at_the_use] {
        let linted = run(lint, source);
        assert_eq!(codes_of(&linted), ["SW317"], "{source}{}", drawn(&linted.reports()));
        // The unreduced sum takes 33.6 MB; without the memory for it each microbatch reduces.
        let planned =
            shardwise::plan("late", source, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let reduction = planned
            .plan
            .steps
            .iter()
            .zip(&planned.report.steps)
            .find(|(step, _)| step.operands[0].value == step.result.value);
        let price = linted.findings[0].price.expect("it costs something");
        let each = reduction.expect("a reduction").1.seconds;
        assert!((price.seconds - 7.0 * each).abs() < 1e-9 * price.seconds, "{price:?} {each}");
        let tight = Options { memory: Some(1e8), ..Options::default() };
        assert!(
            !codes_of(&lint::lint("late", source, &tight, &settings(lint))).contains(&"SW317"),
            "{source}"
        );
        let (fixed, count) = lint::fixed(linted, &Options::default(), &settings(lint));
        assert_eq!(count, usize::from(source != &written));
        computes_the_same("late", source, &fixed.source);
    }
    // Something else reads the reduced value in each microbatch.
    let read = lint.bad_example.replace("}\n", "  Norm = sum_{D,F}(dPart * dPart)\n}\n")
        + "Norms = total(Norm)\noutput Norms[]\n";
    assert!(!codes_of(&run(lint, &read)).contains(&"SW317"));
}

#[test]
fn allow_silences_its_statement_its_file_or_nothing() {
    let body = "hardware tpu-v5p\nmesh X=4\ndim B=64\ninput In[B_X]\nOne = tanh(In)\n\
        Two = tanh(In)\noutput In[B_X]\n";
    let found = |source: &str| {
        let linted = lint::lint("a.shard", source, &Options::default(), &Settings::default());
        linted
            .findings
            .iter()
            .map(|finding| {
                format!("{}@{}", finding.diag.code, source[..finding.span().start].lines().count())
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(found(body), ["SW353@4", "SW353@5"]);
    assert_eq!(found(&body.replace("One =", "allow SW353 One =")), ["SW353@5"]);
    assert_eq!(found(&body.replace("One =", "allow SW353\nOne =")), ["SW353@6"]);
    assert!(found(&format!("# top\nallow SW353\n{body}")).is_empty());
    assert!(
        found(&format!(
            "plan\nallow SW353\n{}",
            body.replace("One = tanh(In)", "In[B] = AllGather_X(In[B_X])")
                .replace("Two = tanh(In)", "Out[B_X] = tanh(In[B_X])")
                .replace("output In", "output Out")
        ))
        .is_empty()
    );
    assert_eq!(found(&format!("allow SW353, SW301, SW900\n{body}")), Vec::<String>::new());
    assert_eq!(found(&format!("allow SW353, SW301\n{body}")), ["SW900@1"]);
    assert_eq!(
        found(&body.replace("input", "allow SW101, SW35\ninput")),
        ["SW901@4", "SW901@4", "SW353@5", "SW353@6"]
    );
}

#[test]
fn what_the_search_chose_is_no_finding_in_its_plan() {
    let source = "hardware h100\nmesh X=8\ndim B=64, D=512, F=1024\ninput x[B_X, D], dy[B_X, D]\n\
        repeat L=4 {\n  carry x\n  param a[D, F], b[F, D]\n\
        x = x + gelu(rmsnorm_D(x) *D a) *F b\n}\n\
        backward from x given dy, microbatches=4\noptimizer adam over X, master=f32\n";
    let planned = shardwise::plan("layers", source, &Options::default());
    let plan = planned.unwrap_or_else(|e| panic!("{e}")).to_string();
    let linted = lint::lint("layers.plan", &plan, &Options::default(), &Settings::default());
    assert_eq!(codes_of(&linted), Vec::<&str>::new(), "{plan}{}", drawn(&linted.reports()));
}

#[test]
fn a_program_with_errors_is_not_linted_and_its_errors_cannot_be_allowed() {
    let linted = lint::lint(
        "a.shard",
        "allow SW204\nhardware tpu-v5p\nmesh X=4\ndim B=64, C=1\ninput In[B_Q]\n",
        &Options::default(),
        &Settings::default(),
    );
    assert_eq!(codes_of(&linted), ["SW204"]);
}

#[test]
fn the_reference_is_current() {
    let page = read("compiler/docs/codes.md");
    assert!(
        page == lint::reference(),
        "compiler/docs/codes.md is out of date: shardwise docs codes > compiler/docs/codes.md"
    );
}

/// The text between the first fence of a language and its end.
fn fenced(page: &str, language: &str) -> String {
    let start = format!("```{language}\n");
    let after = page.split_once(&start).unwrap_or_else(|| panic!("no {start}")).1;
    after.split_once("```").expect("the fence ends").0.to_owned()
}

#[test]
fn the_page_on_checking_is_right() {
    let page = read("compiler/docs/lints.md");
    let config = Config::parse("shardwise.toml", &fenced(&page, "toml"))
        .unwrap_or_else(|findings| panic!("{findings}"));
    let (here, decode) =
        (config.settings("a.shard".as_ref()), config.settings("decode/a.shard".as_ref()));
    let level = |settings: &Settings, code: &str| settings.level(lint::find(code).expect("a lint"));
    assert_eq!(
        (level(&here, "SW313"), level(&here, "SW301"), level(&here, "SW351")),
        (Level::Warn, Level::Deny, Level::Allow)
    );
    assert_eq!((level(&here, "SW332"), level(&decode, "SW332")), (Level::Warn, Level::Allow));
    assert!(config.excludes("vendor/x/a.shard".as_ref()) && !config.excludes("a.shard".as_ref()));
    let program = fenced(&page, "text");
    let found = |source: &str| {
        codes_of(&lint::lint("a.shard", source, &Options::default(), &Settings::default()))
    };
    assert!(found(&program).is_empty());
    assert_eq!(found(&program.replace("allow SW301", "")), ["SW301"]);
    let rows = page.lines().filter(|line| line.starts_with("| [SW")).count();
    assert_eq!(rows, lint::all().len(), "one row for each lint");
    for lint in lint::all() {
        let (code, group, what) = (lint.code, lint.group.name(), lint.what);
        let link = format!("[{code}](codes.md#{}-{})", code.to_lowercase(), lint.name);
        let level = format!("{:?}", lint.level).to_lowercase();
        let row = format!("| {link} | {group} | {level} | {what} |");
        assert!(page.lines().any(|line| line == row), "compiler/docs/lints.md lacks\n{row}");
    }
    for group in lint::Group::ALL {
        assert!(page.contains(&format!("`{}`", group.name())), "{}", group.name());
    }
}

#[test]
fn padding_that_is_much_of_a_dimension_is_reported() {
    let program = |heads: u64| {
        format!(
            "hardware tpu-v5p\nmesh X=4, Y=16\ndim B=8192, D=8192, H={heads} pad, K=128\n\
                input In[B_X, D]\nparam Wq[D, H_Y, K]\nQ = In *D Wq\noutput Q[B_X, H_Y, K]\n"
        )
    };
    let found = |heads: u64| {
        lint::lint("pad.shard", &program(heads), &Options::default(), &Settings::default())
    };
    assert_eq!(
        found(40).findings[0].diag.message,
        "17% of `H` is padding in 16 parts: 4.68 us are lost"
    );
    assert!(found(48).findings.is_empty() && found(47).findings.is_empty());
}

#[test]
fn a_gather_that_nothing_reads_goes() {
    let program = "hardware tpu-v5p\nmesh X=4\ndim B=64, D=64\ninput In[B_X, D]\n\
        In[B, D] = AllGather_X(In[B_X, D])\nOut = gelu(In[B_X, D])\noutput Out[B_X, D]\n";
    let before = lint::lint("idle.shard", program, &Options::default(), &Settings::default());
    assert_eq!(codes_of(&before), ["SW353"]);
    let (after, _) = lint::fixed(before, &Options::default(), &Settings::default());
    assert!(!after.source.contains("AllGather") && after.findings.is_empty(), "{}", after.source);
    computes_the_same("idle.shard", program, &after.source);
}

#[test]
fn brackets_at_a_use_are_found_and_opened_too() {
    let lint = lint::find("SW301").expect("a lint");
    let at_the_use = lint
        .bad_example
        .replace("Tmp[B_X, F] = ", "Tmp = ")
        .replace("= Tmp *F", "= Tmp[B_X, F] *F");
    let linted = run(lint, &at_the_use);
    assert_eq!(codes_of(&linted), ["SW301"]);
    let (fixed, _) = lint::fixed(linted, &Options::default(), &Settings::default());
    assert!(
        fixed.source.contains("Out = Tmp[B_X, F_?] *F Wout") && fixed.findings.is_empty(),
        "{}",
        fixed.source
    );
}

/// What these brackets cost is the sum over `Y`: without them the weights are replicated, so that
/// devices along `X` still read all of them.
#[test]
fn a_sum_over_another_axis_is_no_reading_of_weights() {
    let program = "hardware tpu-v5p\nmesh X=2, Y=2\ndim B=8, D=8, F=16\ninput In[B_X, D]\n\
        param Win[D, F_Y], Wout[F_Y, D]\nOut = gelu(In *D Win) *F Wout\noutput Out[B_X, D]\n";
    let linted = run(lint::find("SW311").expect("a lint"), program);
    assert!(!codes_of(&linted).contains(&"SW311"), "{}", drawn(&linted.reports()));
}

#[test]
fn edits_not_tried_on_very_large_programs_are_reported() {
    let head = "hardware tpu-v5p\nmesh X=16, Y=4\ndim B=49152, D=8192, F=32768\ninput V0[B_X, D]\n\
        param Win[D, F_Y], Wout[F_Y, D]\n";
    let layer = |n: usize| format!("T{n}[B_X, F] = V{n} *D Win\nV{} = T{n} *F Wout\n", n + 1);
    let layers = 3000;
    let source =
        format!("{head}{}output V{layers}[B_X, D]\n", (0..layers).map(layer).collect::<String>());
    let linted = lint::lint("deep.shard", &source, &Options::default(), &Settings::default());
    assert!(
        linted.findings.len() > 10 && linted.findings.len() + linted.untried >= layers,
        "{} {}",
        linted.findings.len(),
        linted.untried
    );
    assert!(
        lint::formats::Summary::of(&[linted])
            .to_string()
            .contains("edits of large programs not tried")
    );
}

/// Too large for a search for each edit, on three axes: what its plan does is that of one search,
/// and not of the textbook's plan, which splits heads along their features.
#[test]
fn findings_of_large_programs_are_those_of_their_plan() {
    let source = read("tests/programs/models/llama3-405b-train.shard");
    let linted = lint::lint("large.shard", &source, &Options::default(), &Settings::default());
    let codes: Vec<&str> = linted.findings.iter().map(|finding| finding.diag.code).collect();
    assert_eq!(codes, ["SW325"]);
}

#[test]
fn fewer_digits_are_asked_for_where_bytes_take_the_time() {
    let lint = lint::all().iter().find(|lint| lint.code == "SW308").expect("it is in the table");
    let program = "hardware tpu-v5p\nmesh P=2 dcn, X=4\ndim B=65536, D=8192, F=8192\n\
        input x[B_PX, D], dy[B_PX, F]\nparam w[D, F_X], n[F]\ny = x *D w + n\n\
        backward from y given dy, gradients=f32\noutput y[B_PX, F], dw[D, F_X], dn[F]\n";
    let linted = run(lint, program);
    let found = linted.findings.iter().filter(|finding| finding.diag.code == "SW308");
    let found: Vec<_> = found.collect();
    // The gradient of `n` is 33 kB, which cross as fast as half of them.
    let [dw] = found[..] else { panic!("{}", drawn(&linted.reports())) };
    assert!(dw.diag.message.starts_with("`dw` crosses `P` in f32: "), "{}", dw.diag.message);
    // What is proposed cures it, and saves at least what is printed.
    assert!(dw.diag.help.as_deref().is_some_and(|help| help.starts_with("write `gradients=bf16`")));
    let cured = program.replace("gradients=f32", "gradients=bf16");
    assert!(!codes_of(&run(lint, &cured)).contains(&"SW308"));
    let [wide, half] = [program, cured.as_str()].map(|text| {
        let planned = shardwise::plan("step", text, &Options::default()).expect("it has a plan");
        let moved = planned.plan.steps.iter().zip(&planned.report.steps);
        let of_dw = moved.filter(|(step, cost)| {
            planned.plan.program.values[step.result.value].name == "dw" && !cost.axes.is_empty()
        });
        of_dw.map(|(_, cost)| cost.seconds).sum::<f64>()
    });
    let saved = dw.price.expect("it has a price").seconds;
    assert!(saved <= (wide - half) * (1.0 + 1e-9) && saved > 0.0, "{saved} {wide} {half}");
}

#[test]
fn blocks_of_a_microbatch_are_small_for_their_number() {
    let lint = lint::all().iter().find(|lint| lint.code == "SW322").expect("it is in the table");
    let program = "hardware tpu-v5p\nmesh X=4, Z=4\ndim B=256, D=4096, F=16384\n\
        input x[B_X, D], dy[B_X, D]\npipeline Z, microbatches=16 {\n  repeat L=16 {\n    \
        carry x\n    param w1[D, F], w2[F, D]\n    x = x + gelu(x *D w1) *F w2\n  }\n}\n\
        output y[B_X, D] = x\nbackward from y given dy\n";
    let linted = run(lint, program);
    let helps = linted.findings.iter().filter(|finding| finding.diag.code == "SW322");
    let helps: Vec<_> = helps.map(|finding| finding.diag.help.as_deref().unwrap_or("")).collect();
    assert!(!helps.is_empty(), "{}", drawn(&linted.reports()));
    assert!(helps.iter().all(|help| help.contains("into fewer microbatches")), "{helps:?}");
}

/// A price is that of a step: a collective of layers is paid for in each of them.
#[test]
fn findings_about_layers_cost_what_all_of_them_do() {
    let program = "hardware h100\nmesh X=16\ndim B=4096, D=4096, F=16384\ninput x: f32[B, D]\n\
        repeat L=8 {\n  carry x\n  param Win: f32[D, F_X], Wout: f32[F_X, D]\n  \
        x = x + gelu(x *D Win) *F Wout\n}\noutput x[B, D]\n";
    let planned = shardwise::plan("layers", program, &Options::default()).expect("it has a plan");
    let moved = planned.plan.steps.iter().zip(&planned.report.steps);
    let moved_s: f64 =
        moved.filter(|(_, cost)| !cost.axes.is_empty()).map(|(_, cost)| cost.total_s()).sum();
    let price_s = |code: &str| {
        let lint = lint::all().iter().find(|lint| lint.code == code).expect("it is in the table");
        let linted = run(lint, program);
        let found = linted.findings.iter().filter(|finding| finding.diag.code == code);
        found.filter_map(|finding| finding.price).map(|price| price.seconds).sum::<f64>()
    };
    let crossing_s = price_s("SW309");
    assert!((crossing_s / moved_s - 1.0).abs() < 1e-9, "{crossing_s} of {moved_s}\n{planned}");
    // Half of the bytes, and latency that stays.
    let saved_s = price_s("SW308");
    assert!((0.4..=0.501).contains(&(saved_s / moved_s)), "{saved_s} of {moved_s}\n{planned}");
}
