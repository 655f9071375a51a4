//! Sums and products in the order that is cheapest, and what is computed once.

use shardwise::verify::{Setup, against, execute, verify};
use shardwise::{Grouping, Options, Pass, Planned};
use shardwise_tests::mutants::mutants;
use shardwise_tests::{files, statements};

fn programs(start: &str) -> Vec<(String, String)> {
    let mut found = files("tests/programs/operations", ".shard");
    found.retain(|(name, _)| name.starts_with(start));
    assert!(found.len() >= 3, "there are programs");
    found
}

fn program(name: &str) -> String {
    let all = files("tests/programs/operations", ".shard");
    all.into_iter().find(|(of, _)| of == name).expect("a program").1
}

fn planned(source: &str, options: &Options) -> Planned {
    shardwise::plan("regroup", source, options).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn kept_order() -> Options {
    Options { grouping: Grouping::AsWritten, ..Options::default() }
}

#[test]
fn programs_are_cheaper_in_another_order_and_say_so() {
    for (name, source) in programs("regroup-") {
        let [written, free] = [kept_order(), Options::default()].map(|of| planned(&source, &of));
        let gain = free.report.serial_s / written.report.serial_s;
        assert!(gain < 0.98, "{name}: {gain}\n{free}");
        assert!(free.to_string().contains("# regrouped"), "{free}");
        assert!(!written.to_string().contains("# regrouped"), "{written}");
        let textbook = |of: &Planned| of.textbook.serial_s.to_bits();
        assert_eq!(textbook(&free), textbook(&written), "{name}: the textbook keeps the order");
    }
}

#[test]
fn a_plan_in_another_order_is_read_back_and_planned_to_itself() {
    for (name, source) in programs("regroup-") {
        let plan = planned(&source, &Options::default()).plan.to_string();
        let again = planned(&plan, &Options::default()).plan.to_string();
        assert_eq!(again, plan, "{name}");
        let setup = Setup::default();
        let verdict = against((&name, &plan), (&name, &source), &Options::default(), &setup)
            .unwrap_or_else(|e| panic!("{e}"));
        assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
    }
}

#[test]
fn every_fault_in_another_order_is_detected() {
    for (name, source) in programs("regroup-") {
        let program = shardwise::check(&name, &source, &Options::default()).program;
        let program = program.expect("it is a program");
        let mut detected = 0;
        for mutant in mutants(&planned(&source, &Options::default()).plan) {
            let explicit = Options { explicit: true, ..Options::default() };
            let text = mutant.plan.to_string();
            let refused = shardwise::check(&name, &text, &explicit).findings.has_errors();
            let setup = Setup { samples: false, ..Setup::default() };
            let wrong = || {
                let verdict = execute(&program, &mutant.plan, &setup);
                verdict.is_ok_and(|verdict| verdict.mismatch.is_some())
            };
            assert!(refused || mutant.other_value || wrong(), "{name}: {}", mutant.what);
            detected += 1;
        }
        assert!(detected > 5, "{name}: {detected}");
    }
}

/// A law that is applied wrongly gives another program, which `verify` tells from the one written.
#[test]
fn wrong_laws_are_detected() {
    let head = "hardware tpu-v5p\nmesh X=2\ndim I=8, J=8, K=8\n\
                input A[I, J_X], B[J_X, K], C[J_X, K], D[J_X, K]\n";
    let ends = "output R[I, K_X]\n";
    for (written, wrong) in [
        ("A *J B - A *J C", "A *J (B + C)"),
        ("A *J B - A *J C", "A *J (C - B)"),
        ("A *J (B + C)", "A *J B + A *J B"),
        ("A *J (B - (C - D))", "A *J ((B - C) - D)"),
        ("A *J (B - (C + D))", "A *J ((B - C) + D)"),
        ("A *J B + A *J C", "A *J B"),
    ] {
        let source = format!("{head}R = {written}\n{ends}");
        let other = format!("{head}R = {wrong}\n{ends}");
        let plan = planned(&other, &Options::default()).plan.to_string();
        let (plan, sketch) = (("wrong", &plan[..]), ("written", &source[..]));
        let verdict = against(plan, sketch, &Options::default(), &Setup::default());
        let verdict = verdict.unwrap_or_else(|e| panic!("{e}"));
        assert!(verdict.mismatch.is_some(), "{written} is not {wrong}: {verdict}");
    }
}

#[test]
fn gradients_are_those_of_the_new_order() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim B=4, T=4096, S=T, N=8, D=64, E=64\n\
                  param Q[B_X, T, N, D], K[B_X, S, N, D], V[B_X, S, N, E]\n\
                  Out = (Q *D K) *S V\nLoss = sum_{B,T,N,E}(square(Out))\n\
                  backward from Loss\noutput Loss[]\n";
    let plan = planned(source, &Options::default());
    assert!(plan.to_string().contains("# regrouped"), "{plan}");
    let derived = shardwise::print_after("gradient", source, &Options::default(), Pass::Report);
    assert!(derived.expect("it is printed").contains("dOut.2"), "{plan}");
    let verdict = verify("gradient", source, &Options::default(), &Setup::default());
    let verdict = verdict.unwrap_or_else(|e| panic!("{e}"));
    assert!(verdict.mismatch.is_none(), "{verdict}");
}

/// What has a name of its own elsewhere, brackets, or a layer in between keeps its place.
#[test]
fn what_an_author_asks_for_keeps_its_place() {
    let head = "hardware tpu-v5p\nmesh X=4\ndim B=65536, D=256, F=8192, E=256\n\
                input In[B_X, D]\nparam W[D, F], V[F, E]\n";
    for (body, regroups) in [
        ("Out = In *D W *F V\n", true),
        ("Tmp = In *D W\nOut = Tmp *F V\n", false),
        ("Tmp[B_X, F] = In *D W\nOut = Tmp *F V\n", false),
        ("Tmp = In *D W\nOut = Tmp *F V\noutput Tmp[B_X, F]\n", false),
        ("Tmp = In *D W\nOut = Tmp *F V + Tmp *F V\n", false),
        ("Tmp: f32 = In *D W\nOut = Tmp *F V\n", false),
        ("Out = gelu(In *D W) *F V\n", false),
    ] {
        let source = format!("{head}{body}output Out[B_X, E]\n");
        let plan = planned(&source, &Options::default()).to_string();
        let found = plan.contains(" = W[") || plan.contains("] *F V[F, E]\nOut");
        assert_eq!(found, regroups, "{body}{plan}");
    }
}

#[test]
fn equal_statements_are_computed_once_and_the_plan_says_so() {
    for (name, source) in programs("once-") {
        let plan = planned(&source, &Options::default());
        assert!(plan.to_string().contains("# computed once: "), "{name}: {plan}");
        let products = statements(&plan.to_string());
        let count = products.iter().filter(|line| line.contains("] *D W[")).count();
        assert!(count <= 1, "{name}: {plan}");
        let again = planned(&plan.plan.to_string(), &Options::default());
        assert_eq!(again.plan.to_string(), plan.plan.to_string(), "{name}");
    }
}

/// A value that is to have brackets of its own is not merged.
#[test]
fn statements_that_are_repeated_on_purpose_are_kept() {
    let head = "hardware tpu-v5p\nmesh X=4\ndim B=8192, D=4096, F=4096\ninput In[B_X, D]\n\
                param W[D, F]\n";
    let pinned = "A = In *D W\nC[B_X, F] = In *D W\nOut = A * C\n";
    let plan = planned(&format!("{head}{pinned}output Out[B_X, F]\n"), &Options::default());
    assert_eq!(plan.to_string().matches("] *D W[").count(), 2, "{plan}");
}

/// Parts of gradients are numbered in the order in which they are derived, which is another one.
#[test]
fn parts_of_other_gradients_are_not_compared_by_their_names() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim B=4, T=4096, S=T, M=512, N=8, D=64, E=64\n\
                  param In[B_X, T, M], Wq[M, N, D], Wk[M, N, D], Wv[M, N, E]\n\
                  InS = rename_{T->S}(In)\n\
                  Out = ((In *M Wq) *D (InS *M Wk)) *S (InS *M Wv)\n\
                  Loss = sum_{B,T,N,E}(square(Out)) + sum_{B,T,M}(gelu(In))\n\
                  backward from Loss\noutput Loss[], dIn[B_X, T, M]\n";
    let plan = planned(source, &Options::default());
    assert!(plan.to_string().contains("# regrouped"), "{plan}");
    let verdict = verify("parts", source, &Options::default(), &Setup::default());
    let verdict = verdict.unwrap_or_else(|e| panic!("{e}"));
    assert!(verdict.mismatch.is_none(), "{verdict}");
}

/// A program with `count` functions of `value` after it, in the brackets of its output.
fn followed(source: &str, value: &str, count: usize) -> String {
    let (body, output) = source.split_once(&format!("output {value}")).expect("an output");
    let mut text = body.to_owned();
    let mut last = value.to_owned();
    for number in 0..count {
        text += &format!("f{number} = gelu({last})\n");
        last = format!("f{number}");
    }
    format!("{text}output {last}{output}")
}

/// Longer programs are planned near the change before they are planned in full.
#[test]
fn orders_and_parts_are_found_in_long_programs() {
    let linear = followed(&program("regroup-linear-attention"), "Out", 30);
    let plan = planned(&linear, &Options::default()).to_string();
    assert!(plan.contains("# regrouped, equal but for rounding: Out = Q *D (K *S V)"), "{plan}");
    let heads = followed(&program("key-heads"), "S", 110);
    let plan = planned(&heads, &Options::default()).to_string();
    assert!(plan.contains("mesh X=16 as 8x2"), "{plan}");
}

/// The gradient of `n * w` would be summed over devices in bf16, and that of `w` follow from it.
#[test]
fn weights_whose_gradients_have_a_dtype_of_their_own_are_not_combined() {
    let planned = |gradients: &str| {
        let source = format!(
            "hardware tpu-v5p\nmesh X=4\ndim B=4096, D=1024, F=4096\n\
            input x[B_X, D], dy[B_X, F]\nparam n[D], w[D, F]\n\
            y = (x * n) *D w\nbackward from y given dy{gradients}\n"
        );
        planned(&source, &Options::default()).to_string()
    };
    let (own, of_parameter) = (planned(", gradients=f32"), planned(""));
    assert!(own.contains("\ndw[D, F] = AllReduce_X(dw[D, F] {U_X})"), "{own}");
    assert!(of_parameter.contains("# regrouped, equal but for rounding: y = x *D (n * w)"));
    assert_eq!(planned(", gradients=bf16"), of_parameter);
}

/// Element by element, the product of activations and the next weights has a matrix for every row
/// of the batch.
#[test]
fn bilinear_gates_are_not_computed_as_outer_products() {
    let source = "hardware h100\nmesh X=8\ndim B=65536, D=1024, F=4096\ninput x[B_X, D]\n\
        param w[D, F], u[D, F], v[F, D]\nh = (x *D w) * (x *D u)\ny = h *F v\n\
        output y[B_X, D]\n";
    let [written, free] = [kept_order(), Options::default()].map(|of| planned(source, &of));
    assert!(!free.to_string().contains("# regrouped"), "{free}");
    assert_eq!(free.report.serial_s.to_bits(), written.report.serial_s.to_bits());
}
