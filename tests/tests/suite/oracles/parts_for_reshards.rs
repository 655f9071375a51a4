//! Parts of axes that reshards call for, against brute force: between random shardings of a value,
//! on whole axes and with the larger axis in two parts, each planned by enumeration. The search
//! finds the cheapest by itself, but for the gain below which an axis stays whole.

use proptest::prelude::*;
use shardwise::{AxisParts, Options};
use shardwise_tests::brute_force::{Goal, optimum};
use shardwise_tests::model::rounding_s;
use shardwise_tests::random::{Dice, for_all, numbers};

/// A plan with parts is at least this much cheaper.
const LEAST_GAIN: f64 = 0.02;

/// A value between two shardings on axes of 2 and 8 devices, and the parts of the larger one.
fn reshard(numbers: &[u32]) -> (String, [Vec<u64>; 2]) {
    let mut dice = Dice::new(numbers);
    let kinds = ["", " ring", " line"].map(|kind| format!("X=2{kind}, Y=8{kind}"));
    let mesh = &kinds[dice.roll(3)];
    let machines = [("tpu-v5p", mesh), ("tpu-v5e", mesh), ("gb200-nvl72", &kinds[0])];
    let (chip, mesh) = machines[dice.roll(3)];
    let sizes: Vec<usize> = (0..2).map(|_| [1024, 8192, 65536][dice.roll(3)]).collect();
    let [before, after] = [(); 2].map(|()| brackets(&mut dice));
    let text = format!(
        "hardware {chip}\nmesh {mesh}\ndim I={}, J={}\ninput A{before}\noutput A{after}\n",
        sizes[0], sizes[1]
    );
    (text, [vec![2, 4], vec![4, 2]])
}

/// Each axis splits a dimension, or none; the first of two on one is the major one.
fn brackets(dice: &mut Dice<'_>) -> String {
    let mut dims = ["I".to_owned(), "J".to_owned()];
    let axes = if dice.one_in(2) { ["X", "Y"] } else { ["Y", "X"] };
    let mut split: [Vec<&str>; 2] = Default::default();
    for axis in axes {
        if let Some(of_dim) = split.get_mut(dice.roll(3)) {
            of_dim.push(axis);
        }
    }
    for (dim, axes) in dims.iter_mut().zip(split).filter(|(_, axes)| !axes.is_empty()) {
        *dim += &format!("_{}", axes.concat());
    }
    format!("[{}]", dims.join(", "))
}

fn agree((text, parts): &(String, [Vec<u64>; 2])) -> Result<(), TestCaseError> {
    let spaces = parts.iter().map(|sizes| AxisParts::These(vec![("Y".to_owned(), sizes.clone())]));
    let mut cheapest = f64::INFINITY;
    for parts in spaces.chain([AxisParts::AsWritten]) {
        let checked = shardwise::check("random", text, &Options { parts, ..Options::default() });
        let Some(program) = checked.program else { continue };
        cheapest = cheapest.min(optimum(&program, Goal::Serial));
    }
    let planned = shardwise::plan("random", text, &Options::default());
    let planned = planned.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    let (found, close) = (planned.report.serial_s, rounding_s(cheapest));
    prop_assert!(found >= cheapest - close, "{found} is below {cheapest}\n{text}\n{planned}");
    prop_assert!(
        found * (1.0 - LEAST_GAIN) <= cheapest + close,
        "{found} is not {cheapest}\n{text}\n{planned}"
    );
    Ok(())
}

#[test]
fn reshards_between_axes_of_two_and_eight() {
    for_all(150, &numbers(20), |numbers| agree(&reshard(&numbers)));
}

/// A reshard on a switch: its mesh, dimensions, both sides, and the bytes that a device sends, as a
/// part of the value.
type Known = (&'static str, &'static str, [&'static str; 2], f64);

/// What takes parts of an axis, or more axes than all shardings of which can be tabulated. The
/// bytes are those of the steps in a comment.
const KNOWN: [Known; 5] = [
    // An AllToAll over half of X, and a Permute.
    ("X=4, Y=2", "I=32768, J=32768", ["I_X, J_Y", "I_Y, J_X"], 1.0 / 16.0 + 1.0 / 8.0),
    // A Slice over each half of X, and a Permute.
    ("X=4, Y=2, Z=4", "I=32768, J=32768", ["I_Z, J_Y", "I_{Y,Z}, J_X"], 1.0 / 32.0),
    // An AllToAll over half of X, a Permute, and an AllGather over Y.
    (
        "X=4, Y=2, Z=4",
        "I=32768, J=32768",
        ["I_{Z,Y}, J_X", "I_{X,Z}, J"],
        1.0 / 64.0 + 1.0 / 32.0 + 1.0 / 32.0,
    ),
    // Slices over W, U and V, and an AllGather over X, Y and Z.
    (
        "X=2, Y=2, Z=2, W=2, U=2, V=2",
        "I=256, J=256, K=256, L=256",
        ["I_X, J_YZ, K, L", "I, J, K_WU, L_V"],
        7.0 / 64.0,
    ),
    // AllToAlls over Y, and over half of Z with W, and an AllGather over the other half.
    (
        "X=2, Y=2, Z=4 as 2x2, W=2",
        "I=2048, J=2048, K=2048",
        ["I_X, J_{Z,W,Y}, K", "I_{X,Z.1,W}, J, K_Y"],
        1.0 / 64.0 + 3.0 / 128.0 + 1.0 / 32.0,
    ),
];

#[test]
fn known_reshards_take_no_more_bytes() {
    for (mesh, dims, [before, after], part) in KNOWN {
        let text = format!(
            "hardware gb200-nvl72\nmesh {mesh}\ndim {dims}\n\
             input A[{before}]\noutput A[{after}]\n"
        );
        let planned = shardwise::plan("known", &text, &Options::default());
        let planned = planned.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let program = &planned.plan.program;
        let elements: f64 = program.dims.iter().map(|dim| dim.size as f64).product();
        let sent =
            planned.report.comm_s * program.mesh.axes[0_usize].bandwidth() / (2.0 * elements);
        assert!(sent < part * 1.001, "{sent} instead of {part}\n{text}\n{planned}");
    }
}
