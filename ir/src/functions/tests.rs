//! Checks every column of the tables that another column can check, for every row: rows are named
//! here only where they are exceptions, so that a new row is checked without a change.

use super::{
    AlongFn, AlongGradient, Composite, Direction, Domain, Formula, Function, Gradient, Linearity,
    Masked, ReduceFn, ResultType, Row,
};

/// Sample arguments: of both signs, close to zero and not, none at a corner of any function.
const EVERYWHERE: [f64; 6] = [-7.3, -2.2, -0.6, 0.35, 1.7, 3.9];
const POSITIVE: [f64; 4] = [0.15, 0.8, 1.9, 4.6];
/// Numbers where a function must have some, one after another.
const NUMBERS: [f64; 3] = [0.9, 0.3, 0.2];
/// Half the width of a difference quotient.
const STEP: f64 = 1e-5;

fn samples(domain: Domain) -> &'static [f64] {
    match domain {
        Domain::Any => &EVERYWHERE,
        Domain::Positive => &POSITIVE,
    }
}

/// Arguments of a function: a sample of each operand, no two the same, then its numbers. Operands
/// that are masks take both truths.
fn arguments(row: &Row) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = vec![Vec::new()];
    for (place, operand) in row.operands.iter().enumerate() {
        let shifted = |x: &f64| if operand.name == "mask" { truth(*x) } else { x + shift(place) };
        let choices: Vec<f64> = samples(operand.domain).iter().map(shifted).collect();
        let extended = |so_far: &Vec<f64>| {
            let with = |&x: &f64| so_far.iter().copied().chain([x]).collect();
            choices.iter().map(with).collect::<Vec<Vec<f64>>>()
        };
        all = all.iter().flat_map(extended).collect();
    }
    for arguments in &mut all {
        arguments.extend(&NUMBERS[..row.numbers]);
    }
    all
}

/// Keeps operands apart, for functions with a corner where two are equal.
fn shift(place: usize) -> f64 {
    0.17 * place as f64
}

fn truth(x: f64) -> f64 {
    f64::from(u8::from(x > 0.0))
}

fn with(arguments: &[f64], place: usize, x: f64) -> Vec<f64> {
    let mut changed = arguments.to_vec();
    changed[place] = x;
    changed
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

fn rows() -> impl Iterator<Item = (&'static Row, Vec<Vec<f64>>)> {
    Function::ALL.iter().map(|function| (function.row(), arguments(function.row())))
}

/// A formula's values along one dimension, on which the operation goes over all of it; what is the
/// same everywhere has one.
struct Along<'a> {
    operands: &'a [Vec<f64>],
    result: &'a [f64],
    given: &'a [f64],
    /// From where on operands are written as numbers.
    numbers_from: usize,
}

impl Along<'_> {
    fn value(&self, formula: &Formula) -> Vec<f64> {
        match formula {
            Formula::Given => self.given.to_vec(),
            Formula::Result => self.result.to_vec(),
            Formula::Operand(place) => self.operands[*place].clone(),
            Formula::Number(text) => vec![text.parse().expect("a number")],
            Formula::Count => vec![self.operands[0].len() as f64],
            Formula::Negate(of) => self.value(of).iter().map(|x| -x).collect(),
            Formula::Infix(how, left, right) => {
                each(&[self.value(left), self.value(right)], |v| how.evaluate(v[0], v[1]))
            }
            Formula::Product(left, right) => {
                each(&[self.value(left), self.value(right)], |v| v[0] * v[1])
            }
            Formula::Call(function, arguments) => {
                let arguments: Vec<Vec<f64>> =
                    arguments.iter().map(|argument| self.value(argument)).collect();
                each(&arguments, function.row().evaluate)
            }
            Formula::Reduce(function, of) => vec![reduced(*function, &self.value(of))],
            Formula::Broadcast(of) => vec![self.value(of)[0]; self.operands[0].len()],
            Formula::IfNumber(place, number, value) => {
                self.value(if *place >= self.numbers_from { number } else { value })
            }
        }
    }
}

fn each(arrays: &[Vec<f64>], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let length = arrays.iter().map(Vec::len).max().unwrap_or(1);
    let at =
        |place: usize| arrays.iter().map(|array| array[place % array.len()]).collect::<Vec<f64>>();
    (0..length).map(|place| f(&at(place))).collect()
}

fn reduced(function: ReduceFn, of: &[f64]) -> f64 {
    let row = function.row();
    let combined = of.iter().fold(row.start, |so_far, &x| (row.combine)(so_far, x));
    (row.finish)(combined, of.len() as f64)
}

/// The value of a definition on a vector.
fn composite(function: Composite, x: &[f64]) -> Vec<f64> {
    let operands = [x.to_vec()];
    let along = Along { operands: &operands, result: &[], given: &[], numbers_from: 1 };
    along.value(&function.row().definition)
}

/// Compares the gradient of `f` by a formula with difference quotients, for a gradient of
/// the result that differs from element to element.
fn check_gradient(name: &str, f: &dyn Fn(&[f64]) -> Vec<f64>, gradient: &Formula) {
    let x = vec![0.3, -1.1, 2.4, 0.9, -0.2];
    let result = f(&x);
    let given: Vec<f64> = (0..result.len()).map(|place| 1.5 - 0.7 * place as f64).collect();
    let loss = |x: &[f64]| f(x).iter().zip(&given).map(|(y, g)| y * g).sum::<f64>();
    let operands = [x.clone()];
    let along = Along { operands: &operands, result: &result, given: &given, numbers_from: 1 };
    for (place, &found) in along.value(gradient).iter().enumerate() {
        let moved = |by: f64| loss(&with(&x, place, x[place] + by));
        let quotient = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        assert!(is_close(found, quotient), "{name}, element {place}: {found}, not {quotient}");
    }
}

#[test]
fn derivatives_are_limits_of_difference_quotients() {
    for (row, arguments) in rows() {
        for (place, operand) in row.operands.iter().enumerate() {
            for at in &arguments {
                let moved = |by: f64| (row.evaluate)(&with(at, place, at[place] + by));
                let quotient = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let found = |formula: &Formula, numbers_from: usize| {
                    let operands: Vec<Vec<f64>> = at.iter().map(|&x| vec![x]).collect();
                    let result = [(row.evaluate)(at)];
                    Along { operands: &operands, result: &result, given: &[1.0], numbers_from }
                        .value(formula)[0]
                };
                let context = || format!("{} by {} at {at:?}", row.name, operand.name);
                match &operand.gradient {
                    Gradient::Through(formula) => {
                        for numbers_from in [row.operands.len(), 1] {
                            let found = found(formula, numbers_from);
                            assert!(is_close(found, quotient), "{}: {found} {quotient}", context());
                        }
                    }
                    // A mask jumps where a difference quotient reaches over it.
                    Gradient::Zero if operand.name == "mask" => {}
                    Gradient::Zero => assert!(is_close(0.0, quotient), "{}", context()),
                    Gradient::Stopped | Gradient::Undefined => {}
                }
            }
        }
    }
}

#[test]
fn gradients_of_reductions_and_composites_are_limits_of_difference_quotients() {
    for &function in ReduceFn::ALL {
        check_gradient(function.name(), &|x| vec![reduced(function, x)], &function.row().gradient);
    }
    for &function in Composite::ALL {
        check_gradient(function.name(), &|x| composite(function, x), &function.row().gradient);
    }
}

#[test]
fn linearity_is_that_of_the_values() {
    let sum = |a: &[f64], b: &[f64], places: &[usize]| {
        let mut sum = a.to_vec();
        for &place in places {
            sum[place] += b[place];
        }
        sum
    };
    for (row, mut arguments) in rows() {
        let count = row.operands.len();
        // Equal operands too, which comparisons tell from others.
        let equal = row.operands.iter().map(|operand| samples(operand.domain)[0]);
        let equal = equal.chain(NUMBERS[..row.numbers].iter().copied()).collect::<Vec<f64>>();
        arguments.insert(0, equal.clone());
        arguments.push(equal);
        // A sum of positive numbers is one, and of anything anything.
        let additive = |linearity: Linearity| {
            let places = linearity.operands(count);
            arguments.iter().zip(arguments.iter().rev()).all(|(a, b)| {
                let b: Vec<f64> = (0..a.len())
                    .map(|place| if places.contains(&place) { b[place] } else { a[place] })
                    .collect();
                let parts = (row.evaluate)(a) + (row.evaluate)(&b);
                is_close((row.evaluate)(&sum(a, &b, &places)), parts)
            })
        };
        if row.linearity == Linearity::None {
            for other in [Linearity::Joint, Linearity::First, Linearity::Last, Linearity::Rest] {
                let is_any = !other.operands(count).is_empty();
                assert!(!is_any || !additive(other), "{} is linear: {other:?}", row.name);
            }
        } else {
            assert!(additive(row.linearity), "{} is not linear so", row.name);
        }
    }
}

#[test]
fn directions_are_those_of_the_values() {
    // Monotone, but no partial maxima pass: masks of partial maxima do not occur. For functions
    // with numbers these decide, and a constant is not monotone.
    let unused = |row: &Row| {
        matches!(row.result, ResultType::Bool | ResultType::Chosen)
            || row.numbers > 0
            || row.linearity == Linearity::Last
            || row.name == "ones"
    };
    for (row, arguments) in rows() {
        for (place, operand) in row.operands.iter().enumerate() {
            let slopes = || {
                arguments.iter().flat_map(|at| {
                    let value = |x: f64| (row.evaluate)(&with(at, place, x));
                    let pairs = EVERYWHERE.windows(2);
                    pairs.map(move |pair| value(pair[1]) - value(pair[0])).collect::<Vec<_>>()
                })
            };
            let (rises, falls) = (slopes().all(|by| by >= 0.0), slopes().all(|by| by <= 0.0));
            match operand.direction {
                Some(Direction::Increasing) => assert!(rises, "{} falls somewhere", row.name),
                Some(Direction::Decreasing) => assert!(falls, "{} rises somewhere", row.name),
                None => assert!(unused(row) || !(rises || falls), "{} is monotone", row.name),
            }
        }
    }
}

#[test]
fn domains_are_where_values_are_numbers() {
    for (row, arguments) in rows() {
        for at in &arguments {
            assert!((row.evaluate)(at).is_finite(), "{} at {at:?}", row.name);
            for (place, operand) in row.operands.iter().enumerate() {
                let below = (row.evaluate)(&with(at, place, -0.7)).is_nan();
                let message = format!("{} at {at:?}, {} below zero", row.name, operand.name);
                assert_eq!(below, operand.domain == Domain::Positive, "{message}");
            }
        }
    }
}

#[test]
fn result_types_are_those_of_the_values() {
    let is_whole = |x: f64| x.fract().abs() <= 0.0;
    for (row, arguments) in rows() {
        let whole = |at: &Vec<f64>| -> Vec<f64> {
            let values = row.operands.len();
            let rounded = at[..values].iter().map(|x| x.round());
            rounded.chain(at[values..].iter().copied()).collect()
        };
        let values = || arguments.iter().map(|at| (row.evaluate)(at));
        let of_whole = || arguments.iter().map(whole).map(|at| (row.evaluate)(&at));
        let holds = match row.result {
            ResultType::Bool => values().all(|value| [0.0, 1.0].contains(&value)),
            ResultType::Chosen => arguments.iter().all(|at| at[1..].contains(&(row.evaluate)(at))),
            ResultType::Whole | ResultType::Number => of_whole().all(is_whole),
            // Gradients have fractions even where their slopes have none.
            ResultType::Float => {
                row.linearity == Linearity::Last || !of_whole().all(|x| is_whole(x) || x.is_nan())
            }
        };
        assert!(holds, "{} is no {:?}", row.name, row.result);
    }
}

#[test]
fn masks_come_out_as_the_values_do() {
    for (row, _) in rows() {
        let value = |x: f64| (row.evaluate)(&[x]);
        let holds = match row.masked {
            Masked::Lost => true,
            Masked::Kept => value(0.0) == 0.0 && value(f64::NEG_INFINITY) == f64::NEG_INFINITY,
            Masked::Zeroed => value(f64::NEG_INFINITY) == 0.0,
        };
        assert!(holds, "{}", row.name);
    }
    for &function in Composite::ALL {
        let value = composite(function, &[0.5, f64::NEG_INFINITY, 1.0]);
        match function.row().masked {
            Masked::Lost => {}
            Masked::Kept => assert!(value[1].is_infinite(), "{}", function.name()),
            Masked::Zeroed => assert!(value[1] == 0.0, "{}", function.name()),
        }
    }
}

#[test]
fn partial_results_combine_to_the_result_of_all() {
    let x = [0.3, -1.1, 2.4, 0.9];
    for &function in ReduceFn::ALL {
        let row = function.row();
        let part = |of: &[f64]| of.iter().fold(row.start, |so_far, &x| (row.combine)(so_far, x));
        let both = (row.combine)(part(&x[..3]), part(&x[3..]));
        assert!(is_close((row.finish)(both, 4.0), reduced(function, &x)), "{}", row.name);
    }
}

/// The formulas of functions and composites against numbers that were not computed by them.
#[test]
fn values_are_the_known_ones() {
    let known: [(Function, &[f64], f64); 13] = [
        (Function::Erf, &[0.5], 0.520_499_877_813_046_5),
        (Function::Gelu, &[1.0], 0.841_191_990_608_276_8),
        (Function::Sigmoid, &[0.0], 0.5),
        (Function::Silu, &[1.0], 0.731_058_578_630_004_9),
        (Function::Softplus, &[0.0], std::f64::consts::LN_2),
        (Function::Tanh, &[0.5], 0.462_117_157_260_009_8),
        (Function::Rsqrt, &[4.0], 0.5),
        (Function::Pow, &[2.0, 3.0], 8.0),
        (Function::Select, &[1.0, 3.0, 4.0], 3.0),
        (Function::Ema, &[1.0, 2.0, 0.75], 1.25),
        (Function::SgdStep, &[1.0, 2.0, 0.25], 0.5),
        (Function::RowStep, &[1.0, 2.0, 4.0, 0.5, 0.0], 0.5),
        (Function::AdamStep, &[1.0, 2.0, 4.0, 0.5, 0.0, 0.5], 0.25),
    ];
    for (function, at, value) in known {
        let found = (function.row().evaluate)(at);
        assert!(is_close(found, value), "{}: {found}, not {value}", function.name());
    }
    let x: Vec<f64> = [1.0_f64, 2.0, 5.0].iter().map(|x| x.ln()).collect();
    let root = 6.0_f64.sqrt() / 2.0;
    let composites: [(Composite, &[f64], &[f64]); 4] = [
        (Composite::Softmax, &x, &[0.125, 0.25, 0.625]),
        (Composite::LogSumExp, &x, &[8.0_f64.ln()]),
        (Composite::LayerNorm, &[1.0, 2.0, 3.0], &[-root, 0.0, root]),
        (Composite::RmsNorm, &[1.0, -1.0, 1.0], &[1.0, -1.0, 1.0]),
    ];
    for (function, x, value) in composites {
        for (found, value) in composite(function, x).iter().zip(value) {
            assert!((found - value).abs() < 1e-5, "{}: {found}, not {value}", function.name());
        }
    }
}

#[test]
fn functions_along_a_dimension_have_their_gradients() {
    let x = vec![0.3, -1.1, 2.4, 0.9, -0.2];
    for &function in AlongFn::ALL {
        let row = function.row();
        let count = if row.picks { 2 } else { x.len() };
        let given: Vec<f64> = (0..count).map(|place| 1.5 - 0.7 * place as f64).collect();
        let mut found = vec![0.0; x.len()];
        match row.gradient {
            AlongGradient::Transposed(back) => found = (back.row().evaluate)(&given, count),
            AlongGradient::PutAt(at) => {
                for (place, given) in (at.row().evaluate)(&x, count).iter().zip(&given) {
                    found[*place as usize] += given;
                }
            }
            AlongGradient::Zero => {}
        }
        for (place, found) in found.into_iter().enumerate() {
            let loss = |by: f64| {
                let y = (row.evaluate)(&with(&x, place, x[place] + by), count);
                y.iter().zip(&given).map(|(y, g)| y * g).sum::<f64>()
            };
            let quotient = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
            assert!(is_close(found, quotient), "{}: {found}, not {quotient}", row.name);
        }
    }
}

#[test]
fn functions_along_a_dimension_have_the_known_values() {
    let known: [(AlongFn, &[f64], &[f64]); 4] = [
        (AlongFn::CumSum, &[1.0, 2.0, 4.0], &[1.0, 3.0, 7.0]),
        (AlongFn::RevCumSum, &[1.0, 2.0, 4.0], &[7.0, 6.0, 4.0]),
        (AlongFn::TopK, &[1.0, 3.0, 3.0, 2.0], &[3.0, 3.0, 2.0]),
        (AlongFn::ArgTopK, &[1.0, 3.0, 3.0, 2.0], &[1.0, 2.0, 3.0]),
    ];
    for (function, x, y) in known {
        assert_eq!((function.row().evaluate)(x, 3), y, "{}", function.name());
    }
}

#[test]
fn names_are_distinct_and_in_order() {
    let names: Vec<&str> = Function::ALL.iter().map(|function| function.name()).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
}
