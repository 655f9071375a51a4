//! Forms of a program, an axis in parts or another order of sums, where the program as written does
//! not fit, breaks an assert, or costs more than lints should say.

use shardwise::lint::{Settings, lint};
use shardwise::{Options, Planned, plan};

/// The keys and values of attention first: no value of `T` by `S` elements.
fn attention(length: u64, assert: &str) -> String {
    format!(
        "hardware tpu-v5p\nmesh X=4, Y=2\ndim B=8, T={length}, S=T, N=16, D=128, E=128\n\
         input Q[B, T, N, D_?], K[B, S, N, D_?], V[B, S, N, E_?]\nScores = Q *D K\n\
         Out = Scores *S V\noutput Out[B, T, N, E_?]\n{assert}"
    )
}

/// A parameter that three ways of the six devices do not divide.
fn product(inner: u64, outer: u64, assert: &str) -> String {
    format!(
        "hardware tpu-v5e\nmesh X=6\ndim B=1024, D={inner}, F={outer}\ninput x[B_?, D_?]\n\
         param w[D_?, F_?]\noutput y[B_?, F_?] = x *D w\n{assert}"
    )
}

fn planned(source: &str, options: &Options) -> Planned {
    plan("form", source, options).unwrap_or_else(|findings| panic!("{source}\n{findings}"))
}

#[test]
fn a_program_that_fits_in_another_form_is_planned() {
    for source in [attention(65536, ""), product(65536, 131_072, "")] {
        let within = planned(&source, &Options::default());
        let peak_bytes = within.report.memory.peak_bytes;
        assert!(peak_bytes <= within.capacity_bytes.expect("a chip has a memory"), "{within}");
        // A plan fits into what it takes.
        let memory = Some(peak_bytes);
        let same = planned(&source, &Options { memory, ..Options::default() });
        assert!(same.report.serial_s <= within.report.serial_s * (1.0 + 1e-9), "{same}");
    }
}

#[test]
fn an_assert_holds_of_the_plan_that_is_printed() {
    for source in [
        attention(8192, "assert serial <= 1ms\nassert memory <= 2GB\n"),
        product(65536, 16384, "assert serial <= 6ms\n"),
    ] {
        planned(&source, &Options::default());
        let linted = lint("form", &source, &Options::default(), &Settings::default());
        assert!(!linted.has_errors(), "{source}\n{}", linted.reports());
    }
    let broken = product(65536, 16384, "assert serial <= 1ms\n");
    let findings = plan("form", &broken, &Options::default()).expect_err("no plan is so short");
    assert!(findings.to_string().contains("`serial` is 5.58 ms"), "{findings}");
}

#[test]
fn findings_are_those_of_the_form_that_is_planned() {
    for source in [attention(8192, ""), attention(65536, ""), product(65536, 16384, "")] {
        let best = planned(&source, &Options::default());
        let linted = lint("form", &source, &Options::default(), &Settings::default());
        for finding in linted.findings.iter().filter_map(|finding| finding.price) {
            assert!(finding.seconds < best.report.serial_s, "{source}\n{}", linted.reports());
        }
    }
}
