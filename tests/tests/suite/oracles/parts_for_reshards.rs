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
    let kind = ["", " ring", " line"][dice.roll(3)];
    let (chip, mesh) = (["tpu-v5p", "tpu-v5e"][dice.roll(2)], format!("X=2{kind}, Y=8{kind}"));
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
