//! Sums that a program declares pending: the textbook rules leave them so where the left side is
//! pending, too, and the statement passes them on. Plans are run on simulated devices.

use shardwise::verify::{Setup, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::planning::{collectives, textbook};

fn moved(declared: &str, statement: &str, output: &str) -> Vec<String> {
    let source = format!(
        "hardware tpu-v5e\nmesh X=2, Y=4\ndim B=8, D=8, F=8\n{declared}\n{statement}\n\
            output {output}\n"
    );
    let options = Options { strategy: Strategy::Textbook, ..Options::default() };
    let verdict = verify("pending", &source, &options, &Setup::default());
    let verdict = verdict.unwrap_or_else(|error| panic!("{error}\n{source}"));
    assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{verdict}\n{source}");
    collectives(&textbook(&source))
}

const BOTH: &str = "input s[B] {U_Y}, f[B] {U_Y}";

#[test]
fn what_is_declared_pending_is_not_reduced_before_it() {
    assert_eq!(moved(BOTH, "y[B] {U_Y} = s + f", "y[B] {U_Y}"), [""; 0]);
    assert_eq!(moved(BOTH, "y[B] {U_Y} = s + f + s", "y[B] {U_Y}"), [""; 0]);
    let product = "input s[B, F] {U_Y}, x[B, D_Y]\nparam w[D_Y, F]";
    assert_eq!(moved(product, "y[B, F] {U_Y} = s + x *D w", "y[B, F] {U_Y}"), [""; 0]);
    let factor = "input s[B, D] {U_Y}\nparam w[D, F]";
    assert_eq!(moved(factor, "y[B, F] {U_Y} = s *D w", "y[B, F] {U_Y}"), [""; 0]);
    let rows = "dim M=16\ninput s[B, D] {U_Y}, Ids: int32[B], like[M_Y, D]";
    assert_eq!(moved(rows, "y[M, D] {U_Y} = put_M(s, Ids, like)", "y[M, D] {U_Y}"), [""; 0]);
    let table = "dim M=16\ninput s[M, D] {U_Y}, Ids: int32[B]";
    assert_eq!(moved(table, "y[B, D] {U_Y} = take_M(s, Ids)", "y[B, D] {U_Y}"), [""; 0]);
    let largest = "input s[B, D] {max_Y}";
    assert_eq!(moved(largest, "y[B] {max_Y} = max_D(s)", "y[B] {max_Y}"), [""; 0]);
}

/// The product of two sums is not the sum of products, and what is declared reduced is.
#[test]
fn what_does_not_pass_is_reduced() {
    assert_eq!(moved(BOTH, "y[B] = s + f", "y[B]"), ["AllReduce_Y(s)", "AllReduce_Y(f)"]);
    let squares = moved(BOTH, "y[B] {U_Y} = s * f", "y[B] {U_Y}");
    assert_eq!(squares, ["AllReduce_Y(f)"]);
    let curved = moved(BOTH, "y[B] {U_Y} = gelu(s) + f", "y[B] {U_Y}");
    assert!(curved.contains(&"AllReduce_Y(s)".to_owned()), "{curved:?}");
}
