//! Programs that are too large for elimination, whose optimum branch and bound finds.

use std::fmt::Write as _;

use shardwise::Options;

/// Products in a grid, each of the sum of its upper and its left neighbour with one of two shared
/// parameters.
fn grid(size: usize) -> String {
    let mut text = "hardware tpu-v5p\nmesh X=4, Y=4, Z=4\ndim B=512, J=4096, K=J\n\
        input x[B_X, J]\nparam m[J_X, K_Y], n[K_X, J_Y]\n"
        .to_owned();
    for i in 0..size {
        for j in 0..size {
            let up = (i > 0).then(|| format!("g{}_{j}", i - 1));
            let left = (j > 0).then(|| format!("g{i}_{}", j - 1));
            let sum = match (up, left) {
                (Some(up), Some(left)) => format!("({up} + {left})"),
                (up, left) => up.or(left).unwrap_or_else(|| "x".to_owned()),
            };
            let by = if (i + j) % 2 == 0 { "*J m" } else { "*K n" };
            let _ = writeln!(text, "g{i}_{j} = {sum} {by}");
        }
    }
    let last = size - 1;
    let _ = writeln!(text, "output g{last}_{last}[B_?, K_?]");
    text
}

/// Rounding alone leaves plans of the larger one that take 7% longer. Of the larger one, what two
/// sums of a kernel read together is bounded to some nanoseconds.
#[test]
fn grids_of_products_have_their_optimum() {
    for (size, most) in [(5, 0.0), (6, 5e-5)] {
        let planned =
            shardwise::plan("grid", &grid(size), &Options::default()).expect("it has a plan");
        let gap = planned.report.serial_s / planned.lower_bound_s() - 1.0;
        assert!(gap <= most, "{size}: {gap}");
    }
}

/// Three statements read a replicated input, which is free. It couples their layouts in no table:
/// with an axis in parts, what is left is small enough for elimination, and the optimum is proven.
#[test]
fn what_is_free_to_read_couples_nothing() {
    let source = "hardware tpu-v5p\nmesh X=2, Y=2, Z=8 as 2x4\n\
        dim K=64, T=1024, E=128, K2=K\n\
        input in1[K2, E]\ninput in4[K2, K_{Z,X}, E_Y]\nparam w8[K, T, K2_Z]\n\
        v3[E, K] = in1 *K2 in4\nv5 = in1 *E,K2 in4\nv6[K_?, E_?] = rename(in1)\n\
        v7 = v5 *K w8\n";
    let planned = shardwise::plan("free", source, &Options::default()).expect("it has a plan");
    assert_eq!(planned.status_name(), "optimal", "{}", planned.lower_bound_s());
}
