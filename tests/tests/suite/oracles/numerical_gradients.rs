//! Derived gradients against numerical differences of the unsharded program, on random programs of
//! every function that has a derivative.

use proptest::prelude::*;
use shardwise::verify::{Setup, Sizes, evaluate, verify};
use shardwise::{Options, Program, Strategy as Planning};
use shardwise_ir::functions::{Domain, Function, Gradient, Row};
use shardwise_tests::random::{Arrays, Dice, for_all, numbers};

const DIMS: [&str; 3] = ["I", "J", "K"];
const SIZES: [usize; 3] = [2, 4, 6];

/// Functions of one value.
const UNARY: [&str; 29] = [
    "tanh({})",
    "gelu({})",
    "silu({})",
    "swish({})",
    "relu({})",
    "sigmoid({})",
    "softplus({})",
    "erf({})",
    "sin({})",
    "cos({})",
    "square({})",
    "abs({})",
    "neg({})",
    "copy({})",
    "-{}",
    "2.5 * {}",
    "{} / 4.0",
    "{} - 0.5",
    "1.0 - {}",
    "exp(0.5 * {})",
    "log(exp({}) + 1.0)",
    "sqrt(exp({}))",
    "rsqrt(exp({}))",
    "pow(exp({}), 1.5)",
    "1.0 / exp({})",
    "maximum({}, 0.25)",
    "minimum({}, 0.25)",
    "select(greater({}, 0.1), {}, 0.0)",
    "cast<f32>({})",
];
/// Functions of two.
const BINARY: [&str; 7] = [
    "{} + {}",
    "{} - {}",
    "{} / exp({})",
    "maximum({}, {})",
    "minimum({}, {})",
    "pow(exp({}), {})",
    "{} * {}",
];

/// A partial program: its text, and the dimensions of its values.
struct Sketch {
    body: String,
    values: Vec<(String, Vec<usize>)>,
}

fn names(dims: &[usize]) -> String {
    dims.iter().map(|&dim| DIMS[dim]).collect::<Vec<_>>().join(", ")
}

/// A word after `_`.
fn word(dims: &[usize]) -> String {
    format!("{{{}}}", names(dims).replace(' ', ""))
}

fn some_dims(dice: &mut Dice<'_>) -> Vec<usize> {
    let first = dice.roll(3);
    if dice.roll(4) == 0 { vec![first] } else { vec![first, (first + 1 + dice.roll(2)) % 3] }
}

impl Sketch {
    fn pick(&self, dice: &mut Dice<'_>) -> (String, Vec<usize>) {
        self.values[self.values.len() - 1 - dice.roll(self.values.len().min(4))].clone()
    }

    /// A statement without brackets on its left side, its result's dimensions as a set.
    fn statement(&mut self, number: usize, dice: &mut Dice<'_>) {
        let ((a, a_dims), (b, b_dims)) = (self.pick(dice), self.pick(dice));
        let union: Vec<usize> =
            (0..3).filter(|dim| a_dims.contains(dim) || b_dims.contains(dim)).collect();
        let shared: Vec<usize> =
            a_dims.iter().copied().filter(|dim| b_dims.contains(dim)).collect();
        let lacking: Vec<usize> = (0..3).filter(|dim| !a_dims.contains(dim)).collect();
        let fill = |form: &str| form.replacen("{}", &a, 1).replacen("{}", &b, 1);
        let (dims, right) = match dice.roll(9) {
            0 | 1 => (a_dims, fill(UNARY[dice.roll(UNARY.len())])),
            2 | 3 => (union, fill(BINARY[dice.roll(BINARY.len())])),
            4 if !shared.is_empty() => {
                let gone: Vec<usize> = shared[..=dice.roll(shared.len())].to_vec();
                (
                    union.iter().copied().filter(|dim| !gone.contains(dim)).collect(),
                    format!("{a} *_{} {b}", word(&gone)),
                )
            }
            // Linear in its last operand, and in no other: the first is what no parameter leads to.
            5 => {
                let input = self.values[0].1.clone();
                (
                    (0..3).filter(|dim| a_dims.contains(dim) || input.contains(dim)).collect(),
                    format!("dgelu(A, {a})"),
                )
            }
            6 if !lacking.is_empty() => {
                ((0..3).collect(), format!("broadcast_{}({a})", word(&lacking)))
            }
            7 if !a_dims.is_empty() => {
                let along = &a_dims[..=dice.roll(a_dims.len())];
                let function = ["softmax", "layernorm", "rmsnorm", "logsumexp"][dice.roll(4)];
                let kept = a_dims
                    .iter()
                    .copied()
                    .filter(|dim| function != "logsumexp" || !along.contains(dim))
                    .collect();
                (kept, format!("{function}_{}({a})", word(along)))
            }
            _ if !a_dims.is_empty() => {
                let gone = a_dims[dice.roll(a_dims.len())];
                let function = ["sum", "mean", "max", "min"][dice.roll(4)];
                (
                    a_dims.iter().copied().filter(|&dim| dim != gone).collect(),
                    format!("{function}_{}({a})", DIMS[gone]),
                )
            }
            _ => (a_dims, format!("tanh({a})")),
        };
        self.body += &format!("T{number} = {right}\n");
        self.values.push((format!("T{number}"), dims));
    }
}

/// A program that ends in `backward` from its last value, and whether every parameter counts.
fn program(numbers: &[u32], statements: usize) -> String {
    let mut dice = Dice::new(numbers);
    let mut sketch = Sketch { body: String::new(), values: Vec::new() };
    let mut head = format!(
        "hardware tpu-v5p\nmesh X=2\ndim {}\n",
        (0..3).map(|d| format!("{}={}", DIMS[d], SIZES[d])).collect::<Vec<_>>().join(", ")
    );
    for (keyword, name) in [("input", "A"), ("param", "V"), ("param", "W")] {
        let dims = some_dims(&mut dice);
        let split = dice.roll(3);
        let brackets: Vec<String> = dims
            .iter()
            .enumerate()
            .map(
                |(i, &dim)| {
                    if i == split { format!("{}_X", DIMS[dim]) } else { DIMS[dim].to_owned() }
                },
            )
            .collect();
        head += &format!("{keyword} {name}[{}]\n", brackets.join(", "));
        sketch.values.push((name.to_owned(), dims));
    }
    (0..statements).for_each(|number| sketch.statement(number, &mut dice));
    // What nothing else reads is added in, so that most of the program is differentiated.
    let mut total = format!("T{}", statements - 1);
    for number in 0..statements - 1 {
        if dice.roll(2) == 0 {
            sketch.body += &format!("S{number} = {total} + T{number}\n");
            total = format!("S{number}");
        }
    }
    format!("{head}{}Loss = tanh({total})\nbackward from Loss\n", sketch.body)
}

fn random(shape: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..shape).map(|_| 1.6 * next() - 0.8).collect()
}

fn elements(program: &Program, name: &str) -> usize {
    let value =
        program.values.iter().find(|value| value.name == name).expect("a value of the program");
    value.dims.iter().map(|&dim| program.dims[dim].size as usize).product()
}

fn declared(program: &Program, seed: u64) -> Arrays {
    let names =
        program.values.iter().filter(|value| value.is_declared()).map(|value| value.name.clone());
    names
        .enumerate()
        .map(|(i, name)| (name.clone(), random(elements(program, &name), seed + 77 * i as u64)))
        .collect()
}

fn sum(program: &Program, arrays: &Arrays, loss: &str, weights: Option<&str>) -> f64 {
    let values = evaluate(program, arrays).expect("all is declared");
    let ones = vec![1.0; values[loss].len()];
    let weights = weights.map_or(&ones, |name| &arrays[name]);
    values[loss].iter().zip(weights).map(|(a, b)| a * b).sum()
}

/// The central difference of the loss by one element of a value.
fn difference(
    program: &Program,
    arrays: &Arrays,
    (loss, weights): (&str, Option<&str>),
    (name, place): (&str, usize),
    step: f64,
) -> f64 {
    let at = |shift: f64| {
        let mut moved = arrays.clone();
        moved.get_mut(name).expect("it is declared")[place] += shift;
        sum(program, &moved, loss, weights)
    };
    (at(step) - at(-step)) / (2.0 * step)
}

fn derived(source: &str) -> Option<shardwise_ir::dataflow::Analyzed> {
    let checked = shardwise::check("random", source, &Options::default());
    if let Some(program) = checked.program {
        return Some(program);
    }
    let codes: Vec<&str> = checked.findings.reports.iter().map(|report| report.diag.code).collect();
    assert!(codes.iter().all(|code| *code == "SW603"), "{}\n{source}", checked.findings);
    None
}

/// Whether every derived gradient of a declared value is its numerical difference.
fn is_right(source: &str, seed: u64) -> Result<(), TestCaseError> {
    let Some(program) = derived(source) else { return Ok(()) };
    let arrays = declared(&program, seed);
    let values = evaluate(&program, &arrays).expect("all is declared");
    if values.values().flatten().any(|x| !x.is_finite() || x.abs() > 1e4) {
        return Ok(());
    }
    for name in ["V", "W"] {
        let Some(gradient) = values.get(&format!("d{name}")) else { continue };
        for (place, &found) in gradient.iter().enumerate() {
            // Richardson's extrapolation: normalising values that are nearly equal curves a lot.
            let of = |step: f64| difference(&program, &arrays, ("Loss", None), (name, place), step);
            let expected = (4.0 * of(1e-5) - of(2e-5)) / 3.0;
            let close = (found - expected).abs() <= 2e-5 * expected.abs().max(1.0);
            prop_assert!(
                close,
                "d{name}[{place}] is {found}, but the difference {expected}\n{source}\n{program}"
            );
        }
    }
    Ok(())
}

/// Whether the derived program is text that reads back to itself, and its plans compute what it
/// computes.
fn can_be_planned(source: &str) -> Result<(), TestCaseError> {
    let Some(program) = derived(source) else { return Ok(()) };
    let again = shardwise::check("random", &program.to_string(), &Options::default());
    let read = again
        .program
        .ok_or_else(|| TestCaseError::fail(format!("{}\n{program}", again.findings)))?;
    prop_assert!(shardwise_ir::print::same(&program, &read), "{program}\n{read}");
    let priced = |strategy| {
        let options = Options { strategy, ..Options::default() };
        let verdict =
            verify("random", source, &options, &Setup { sizes: Sizes::Full, ..Setup::default() })
                .unwrap_or_else(|e| panic!("{e}\n{source}"));
        assert!(verdict.mismatch.is_none(), "{verdict}\n{source}");
        shardwise::plan("random", source, &options)
            .unwrap_or_else(|e| panic!("{e}\n{source}"))
            .report
            .serial_s
    };
    prop_assert!(
        priced(Planning::Search) <= priced(Planning::Textbook) * (1.0 + 1e-12),
        "{source}"
    );
    Ok(())
}

fn run(cases: u32, check: impl Fn(&str, u64) -> Result<(), TestCaseError>) {
    let inputs = (numbers(48), 1_usize..7, any::<u32>());
    for_all(cases, &inputs, |(numbers, statements, seed)| {
        check(&program(&numbers, statements), u64::from(seed))
    });
}

#[test]
fn gradients_are_numerical_differences() {
    run(400, is_right);
}

#[test]
fn derived_programs_are_text_and_can_be_planned() {
    run(60, |source, _| can_be_planned(source));
}

/// Statements that change dimensions, on `A[I, J]`, `V[J, K]` and `W[I, J]`.
const STRUCTURE: [&str; 15] = [
    "R[I_?, M_?] = rename(W)\nS = R *I W\nLoss = tanh(S *J V)",
    "R[N_?] = reshape(W)\nS = tanh(R)\nT[J_?, I_?] = reshape(S)\nLoss = T *J V",
    "Ids = cast<int32>(4.0 * A)\nX = take_K(V, sum_J(Ids))\nLoss = tanh(X *J W)",
    "Ids = cast<int32>(4.0 * A)\nX = put_K(W, Ids, V)\nLoss = tanh(X + V)",
    "H = slice_{K->P}(V, 3)\nB = slice_{K,P}(V)\nLoss = tanh(H) * B + sum_I(W)",
    "H = pad_{J->K}(W, 1)\nLoss = softmax_K(H) *K V",
    "C = concat_{J,K,J->S}(tanh(W), W *J V, W)\nLoss = layernorm_S(C) *I W",
    "R[I_?, M_?] = rename(W)\nQ = R *I W\nLoss = softmax_J(causal_{M,J}(Q)) *J V",
    "Q = select(less(position_J(W), position_I(W)), W, A) + select(equal(W, 0.5), 1.0, 2.0)\n\
        Loss = tanh(lower_{I,J}(Q)) *J V",
    "Ids = cast<int32>(4.0 * A)\nZ[I, J] = 0.5\nH = one_hot_K(sum_J(Ids)) *K V\n\
        Loss = tanh(H + Z) *J W",
    "H = roll_J(W, -1) * select(iota_I() <= 0, 2.0 * W, round(W))\n\
        Loss = softmax_J(select(iota_J() <= 2, H, -inf)) *J V",
    "H = cumsum_K(V) + revcumsum_K(tanh(V))\nT = topk_{J->P}(W)\n\
        Loss = (tanh(H) *K V) *J W + sum_P(T * T)",
    "F, G[J, M] = split_{K->P,M}(tanh(V))\n\
        Loss = (sum_P(F) * sum_M(G * G)) *J W + 0.5 * argmax_J(W)",
    "H = windows_{J->P,R}(tanh(W), stride=2)\n\
        Loss = overlap_{P,R->J}(H * H, stride=2) *J V",
    "F = slice_{K->R}(V)\nH = tanh(conv_{J,R}(A + W, sum_J(F)))\n\
        Loss = conv_{J,R->P}(H, F *J V, stride=2, padding=1)",
];

#[test]
fn gradients_of_what_changes_dimensions_are_numerical_differences() {
    for (number, body) in STRUCTURE.iter().enumerate() {
        let brackets = [
            ["[I, J_X]", "[J, K]", "[I, J_X]"],
            ["[I, J]", "[J_X, K]", "[I_X, J]"],
            ["[I_X, J]", "[J, K_X]", "[I, J]"],
        ];
        for [a, v, w] in brackets {
            let head = "hardware tpu-v5p\nmesh X=2\ndim I=2, J=4, K=6, M=4, N=I*J, P=2, S=14, R=3";
            let source =
                format!("{head}\ninput A{a}\nparam V{v}, W{w}\n{body}\nbackward from Loss\n");
            is_right(&source, number as u64).unwrap_or_else(|error| panic!("{error}"));
            can_be_planned(&source).unwrap_or_else(|error| panic!("{error}"));
            let program = derived(&source).expect(&source);
            assert!(program.values.iter().any(|value| value.name == "dW"), "{program}");
        }
    }
}

/// `W` in one place of a call, other values or a last number in the others.
fn call(row: &Row, target: usize, ends_with_number: bool) -> String {
    let argument = |(place, domain): (usize, Domain)| {
        let value = if place == target { "W" } else { "A" };
        match (domain, ends_with_number && place + 1 == row.operands.len()) {
            (_, true) => "0.25".to_owned(),
            (Domain::Any, false) => value.to_owned(),
            (Domain::Positive, false) => format!("exp({value})"),
        }
    };
    let values = row.operands.iter().map(|operand| operand.domain).enumerate().map(argument);
    let numbers = std::iter::repeat_n("0.9".to_owned(), row.numbers);
    format!("{}({})", row.name, values.chain(numbers).collect::<Vec<_>>().join(", "))
}

#[test]
fn every_function_of_the_table_is_planned_run_and_differentiated() {
    let head = "hardware tpu-v5p\nmesh X=2\ndim I=2, J=4\ninput A[I, J_X]\nparam W[I_X, J]";
    for row in Function::ALL.iter().map(|function| function.row()) {
        let last = row.operands.len() - 1;
        for (target, operand) in row.operands.iter().enumerate() {
            let tail = match operand.gradient {
                Gradient::Through(_) => "backward from Loss",
                Gradient::Zero | Gradient::Stopped | Gradient::Undefined => "output Loss[I, J]",
            };
            let may_end = row.numbers == 0 && target < last;
            for ends_with_number in [false, true].into_iter().filter(|&ends| may_end || !ends) {
                let call = call(row, target, ends_with_number);
                let source = format!("{head}\nLoss = {call}\n{tail}\n");
                is_right(&source, 5).unwrap_or_else(|error| panic!("{error}"));
                can_be_planned(&source).unwrap_or_else(|error| panic!("{error}"));
                let program = derived(&source).expect(&source);
                let has_gradient = program.values.iter().any(|value| value.name == "dW");
                assert_eq!(has_gradient, tail.starts_with("backward"), "{program}");
            }
        }
    }
}

#[test]
fn gradients_of_products_are_exact() {
    let bodies = [
        ("I, K", "Loss = A *J V"),
        ("J", "Loss = W *I W"),
        ("I, J", "h = W + A\nS = h *J A\nLoss = S * h - h + 3.0 * A"),
    ];
    for (dims, body) in bodies {
        let head =
            "hardware tpu-v5p\nmesh X=2\ndim I=2, J=4, K=6\ninput A[I, J]\nparam V[J, K], W[I, J]";
        let source =
            format!("{head}\ninput dLoss[{dims}]\n{body}\nbackward from Loss given dLoss\n");
        let program = derived(&source).expect(&source);
        let integers = |array: Vec<f64>| array.into_iter().map(|x| (x * 5.0).round()).collect();
        let arrays: Arrays = declared(&program, 3)
            .into_iter()
            .map(|(name, array)| (name, integers(array)))
            .collect();
        let values = evaluate(&program, &arrays).expect("all is declared");
        let name = if values.contains_key("dV") { "V" } else { "W" };
        for (place, found) in values[&format!("d{name}")].iter().enumerate() {
            let expected =
                difference(&program, &arrays, ("Loss", Some("dLoss")), (name, place), 1.0);
            assert!((found - expected).abs() <= 0.0, "{found} {expected}\n{program}");
        }
    }
}
