//! The grouping of sums and products against brute force: of random programs with three operands,
//! all groupings are written as programs of their own, and each is planned by enumeration. The plan
//! is as cheap as the cheapest, but for the gain below which a program keeps its order.

use proptest::prelude::*;
use shardwise::{Grouping, Options};
use shardwise_tests::brute_force::{Goal, optimum};
use shardwise_tests::model::rounding_s;
use shardwise_tests::random::{Dice, for_all, numbers};

/// A program whose order is not kept is at least this much cheaper.
const LEAST_GAIN: f64 = 0.02;

const DIMS: [&str; 4] = ["I", "J", "K", "L"];
const NAMES: [&str; 3] = ["A", "B", "C"];

/// A program, and the statements that may compute its result, first those that it has.
#[derive(Clone, Debug)]
struct Sketch {
    before: String,
    bodies: Vec<String>,
    after: String,
}

impl Sketch {
    fn text(&self, body: usize) -> String {
        format!("{}{}{}", self.before, self.bodies[body], self.after)
    }
}

/// Three operands with their dimensions, and the text before the statements.
fn operands(dice: &mut Dice<'_>, choices: &[[&[usize]; 3]]) -> (String, [Vec<usize>; 3]) {
    let sizes = [64, 512, 8192, 65536];
    let dims: Vec<String> =
        DIMS.iter().map(|dim| format!("{dim}={}", sizes[dice.roll(sizes.len())])).collect();
    let chip = ["tpu-v5p", "tpu-v5e"][dice.roll(2)];
    let mut text =
        format!("hardware {chip}\nmesh X={}\ndim {}\n", [2, 4][dice.roll(2)], dims.join(", "));
    let dims = dice.pick(choices).map(<[usize]>::to_vec);
    for (name, dims) in NAMES.iter().zip(&dims) {
        text += &format!("input {name}{}\n", brackets(dims, dice));
    }
    (text, dims)
}

/// Brackets in which `X` splits at most one dimension, or in which that is left open.
fn brackets(dims: &[usize], dice: &mut Dice<'_>) -> String {
    let (is_open, split) = (dice.one_in(3), dice.roll(dims.len() + 1));
    let dims = dims.iter().enumerate().map(|(place, &dim)| {
        let axis = if is_open { "_?" } else { ["", "_X"][usize::from(place == split)] };
        format!("{}{axis}", DIMS[dim])
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}

/// A product of three operands, of which every dimension that two have is summed.
fn product(numbers: &[u32]) -> Sketch {
    let mut dice = Dice::new(numbers);
    let choices: [[&[usize]; 3]; 4] = [
        [&[0, 1], &[1, 2], &[2, 3]],
        [&[0, 1], &[1, 2], &[2]],
        [&[0, 1, 3], &[2, 1, 3], &[2, 3]],
        [&[0, 1], &[0, 2], &[2, 3]],
    ];
    let (before, dims) = operands(&mut dice, &choices);
    let count = |dim: usize| dims.iter().filter(|dims| dims.contains(&dim)).count();
    let kept: Vec<usize> = (0..4).filter(|&dim| count(dim) == 1).collect();
    let pairs = [[0, 1, 2], [1, 2, 0], [0, 2, 1]];
    let body = |[a, b, c]: [usize; 3]| {
        let shared = |left: &[usize], right: &[usize]| -> Vec<usize> {
            left.iter().copied().filter(|dim| right.contains(dim)).collect()
        };
        let inner: Vec<usize> =
            shared(&dims[a], &dims[b]).into_iter().filter(|dim| !dims[c].contains(dim)).collect();
        let mut left: Vec<usize> = [&dims[a][..], &dims[b]].concat();
        left.retain(|dim| !inner.contains(dim));
        let outer = shared(&dims[c], &left);
        let is_joined = !shared(&dims[a], &dims[b]).is_empty() && !outer.is_empty();
        let of = |dims: &[usize]| dims.iter().map(|&dim| DIMS[dim]).collect::<Vec<_>>().join(",");
        let (a, b, c) = (NAMES[a], NAMES[b], NAMES[c]);
        is_joined.then(|| format!("R = ({a} *{} {b}) *{} {c}\n", of(&inner), of(&outer)))
    };
    let bodies = pairs.into_iter().filter_map(body).collect();
    let after = format!("output R{}\n", brackets(&kept, &mut dice));
    Sketch { before, bodies, after }
}

/// A sum of three operands.
fn sum(numbers: &[u32]) -> Sketch {
    let mut dice = Dice::new(numbers);
    let choices: [[&[usize]; 3]; 3] =
        [[&[0, 1], &[0, 1], &[1]], [&[0, 1], &[1], &[1]], [&[0], &[0, 1], &[0]]];
    let (before, _) = operands(&mut dice, &choices);
    let bodies = match dice.roll(3) {
        0 => ["(A + B) + C", "A + (B + C)", "(A + C) + B"],
        1 => ["(A + B) - C", "A + (B - C)", "(A - C) + B"],
        _ => ["(A - B) - C", "A - (B + C)", "(A - C) - B"],
    };
    let bodies = bodies.map(|body| format!("R = {body}\n")).to_vec();
    let after = format!("output R{}\n", brackets(&[0, 1], &mut dice));
    Sketch { before, bodies, after }
}

/// Two products with a common operand, or the product of it with a sum.
fn distributed(numbers: &[u32]) -> Sketch {
    let mut dice = Dice::new(numbers);
    let choices: [[&[usize]; 3]; 2] = [[&[0, 1], &[1, 2], &[1, 2]], [&[0, 1], &[1, 2], &[1]]];
    let (before, _) = operands(&mut dice, &choices);
    let sign = ["+", "-"][dice.roll(2)];
    let mut bodies =
        vec![format!("R = (A *J B) {sign} (A *J C)\n"), format!("R = A *J (B {sign} C)\n")];
    if dice.one_in(2) {
        bodies.reverse();
    }
    let after = format!("output R{}\n", brackets(&[0, 2], &mut dice));
    Sketch { before, bodies, after }
}

fn agree(sketch: &Sketch) -> Result<(), TestCaseError> {
    let grouping = Grouping::AsWritten;
    let as_written = Options { grouping, ..Options::default() };
    let mut cheapest = f64::INFINITY;
    for body in 0..sketch.bodies.len() {
        let checked = shardwise::check("random", &sketch.text(body), &as_written);
        let Some(program) = checked.program else {
            return Err(TestCaseError::reject("sizes do not divide"));
        };
        cheapest = cheapest.min(optimum(&program, Goal::Serial));
    }
    let text = sketch.text(0);
    let options = Options { memory: Some(f64::INFINITY), ..Options::default() };
    let planned = shardwise::plan("random", &text, &options);
    let planned = planned.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    let (found, close) = (planned.report.serial_s, rounding_s(cheapest));
    prop_assert!(found >= cheapest - close, "{found} is below {cheapest}\n{text}\n{planned}");
    prop_assert!(
        found * (1.0 - LEAST_GAIN) <= cheapest + close,
        "{found} is not {cheapest}\n{text}\n{planned}"
    );
    Ok(())
}

fn run(sketch: fn(&[u32]) -> Sketch, cases: u32) {
    for_all(cases, &numbers(40), |numbers| agree(&sketch(&numbers)));
}

#[test]
fn products_of_three() {
    run(product, 150);
}

#[test]
fn sums_of_three() {
    run(sum, 100);
}

#[test]
fn products_with_a_common_operand() {
    run(distributed, 60);
}
