//! Many layers without norms, written out: what forty of them compute is about one, as what the
//! first computes, so that a right plan is right, and a wrong one is noticed in the last layer.

use std::fmt::Write as _;

use shardwise::verify::{Setup, execute, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::mutants::mutants;

/// Layers of an attention, if they have one, and a feed-forward layer; with sums around both, if
/// they are residual.
fn stack(layers: usize, (attends, is_residual): (bool, bool), function: &str) -> String {
    let mut text = "hardware tpu-v5p\nmesh X=2, Y=2\n\
        dim B=64, T=128, S=T, D=512, N=8, H=64, F=2048\ninput y0[B_X, T, D], dy[B_X, T, D]\n"
        .to_owned();
    let sum = |of: &str| if is_residual { format!("{of} + ") } else { String::new() };
    for i in 0..layers {
        let (mut x, next) = (format!("y{i}"), i + 1);
        if attends {
            let before = sum(&x);
            let _ = writeln!(
                text,
                "param q{i}[D, N_Y, H], k{i}[D, N_Y, H], v{i}[D, N_Y, H], o{i}[N_Y, H, D]\n\
                keys{i}[B_?, S_?, N_?, H_?] = rename({x} *D k{i})\n\
                values{i}[B_?, S_?, N_?, H_?] = rename({x} *D v{i})\n\
                a{i} = attention({x} *D q{i}, keys{i}, values{i}, causal)\n\
                m{i} = {before}a{i} *N,H o{i}"
            );
            x = format!("m{i}");
        }
        let before = sum(&x);
        let _ = writeln!(
            text,
            "param in{i}[D, F_Y], out{i}[F_Y, D]\nh{i} = {function}({x} *D in{i})\n\
            y{next} = {before}h{i} *F out{i}"
        );
    }
    text
}

#[test]
fn gradients_of_deep_stacks_are_right() {
    for (kind, function) in [
        ((true, true), "gelu"),
        ((true, true), "tanh"),
        ((true, false), "gelu"),
        ((false, false), "relu"),
    ] {
        let source =
            stack(24, kind, function) + "backward from y24 given dy\noutput dy0[B_X, T, D]\n";
        for seed in [1, 2, 3] {
            let options = Options { strategy: Strategy::Textbook, ..Options::default() };
            let verdict = verify("deep", &source, &options, &Setup { seed, ..Setup::default() });
            let verdict = verdict.expect("small enough");
            assert!(verdict.mismatch.is_none(), "{kind:?} {function} {seed}: {verdict}");
        }
    }
}

#[test]
fn mutants_of_the_last_of_many_layers_are_noticed() {
    let source = stack(40, (false, false), "gelu") + "output y40[B_X, T, D]\n";
    let options = Options { strategy: Strategy::Textbook, ..Options::default() };
    let program = shardwise::check("deep", &source, &options).program.expect("a program");
    let plan = shardwise::plan("deep", &source, &options).expect("a plan").plan;
    let of_last = |what: &str| what.starts_with("y40") || what.starts_with("h39");
    let changed: Vec<_> = mutants(&plan).into_iter().filter(|it| of_last(&it.what)).collect();
    assert!(changed.len() > 20, "{}", changed.len());
    for mutant in changed {
        let verdict = execute(&program, &mutant.plan, &Setup::default()).expect("small enough");
        assert!(verdict.mismatch.is_some(), "{}: {verdict}", mutant.what);
    }
}
