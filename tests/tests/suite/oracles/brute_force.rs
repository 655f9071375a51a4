//! The search against brute force: on random small programs both find the same price, the bound of
//! the dual is not higher, and the solutions rounded from it are not lower.

use proptest::prelude::*;
use shardwise::{AxisParts, Grouping, Objective, Options};
use shardwise_tests::brute_force::{Goal, optimum, shortest_schedule};
use shardwise_tests::model::{bounded_program, rounding_s};
use shardwise_tests::random::{Dice, draws, for_all, numbers};

/// A random program as text: declarations, one to three operations, outputs.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    pub(super) text: String,
}

/// The last two only come to be: `P` is cut out of others, `M` is what `I` is renamed to.
const DIMS: [&str; 6] = ["I", "J", "K", "L", "P", "M"];

pub(super) fn sketch(numbers: &[u32], axes: usize, operations: usize) -> Sketch {
    let mut dice = Dice::new(numbers);
    let mut text = format!("hardware {}\nmesh ", ["tpu-v5p", "tpu-v5e", "tpu-v4p"][dice.roll(3)]);
    let names = ["X", "Y", "Z"];
    for (i, name) in names.iter().take(axes).enumerate() {
        let size = [2, 4, 3][dice.roll(3)];
        let kind = ["", " ring", " line"][dice.roll(3)];
        text += &format!("{}{name}={size}{kind}", if i > 0 { ", " } else { "" });
    }
    let sizes = [24, 48, 96, 480, 4800, 49152, 3];
    let plain: Vec<usize> = (0..4).map(|_| sizes[dice.roll(sizes.len())]).collect();
    let dims = plain
        .iter()
        .copied()
        .chain([3, plain[0]])
        .zip(DIMS)
        .map(|(size, dim)| format!("{dim}={size}"));
    text += &format!("\ndim {}\ninput Q: int32[P]\n", dims.collect::<Vec<_>>().join(", "));
    let mut values: Vec<(String, Vec<usize>)> = Vec::new();
    for i in 0..2 {
        let first = dice.roll(4);
        let dims = if dice.roll(5) == 0 {
            vec![first]
        } else {
            vec![first, (first + 1 + dice.roll(3)) % 4]
        };
        let name = format!("A{i}");
        let closed = dice.roll(4) > 0;
        text += &format!("input {name}{}\n", brackets(&dims, &mut dice, axes, closed));
        values.push((name, dims));
    }
    let mut body = String::new();
    for i in 0..operations {
        let (name, dims) = operation(&mut body, i, &mut values, &mut dice, axes);
        values.push((name, dims));
    }
    text += &body;
    for (name, dims) in values.iter().skip(2) {
        let last = name.ends_with(&format!("{}", operations - 1));
        if last || dice.roll(3) == 0 {
            text += &format!("output {name}{}\n", brackets(dims, &mut dice, axes, true));
        }
    }
    Sketch { text }
}

fn operation(
    body: &mut String,
    i: usize,
    values: &mut [(String, Vec<usize>)],
    dice: &mut Dice<'_>,
    axes: usize,
) -> (String, Vec<usize>) {
    let name = format!("T{i}");
    let (a, a_dims) = values[values.len() - 1 - dice.roll(2)].clone();
    let (b, b_dims) = values[dice.roll(values.len())].clone();
    let mut union = a_dims.clone();
    union.extend(b_dims.iter().filter(|d| !a_dims.contains(d)));
    let shared: Vec<usize> = a_dims.iter().copied().filter(|d| b_dims.contains(d)).collect();
    let (dims, right) = match dice.roll(17) {
        0 => (a_dims.clone(), format!("gelu({a})")),
        1 => (union, format!("{a} + {b}")),
        2 => (a_dims.clone(), format!("2.0 * {a}")),
        9 => (union, format!("dgelu({a}, {b})")),
        10 if a_dims.len() == 1 => {
            let added = (a_dims[0].min(3) + 1) % 4;
            (vec![a_dims[0], added], format!("broadcast_{}({a})", DIMS[added]))
        }
        7 => (union, format!("{a} / {b}")),
        11 => {
            let forms = [format!("exp({a})"), format!("-{a}"), format!("{a} + 1.0")];
            (a_dims.clone(), dice.pick(&forms).clone())
        }
        12 if !a_dims.is_empty() && !a_dims.contains(&4) => {
            let from = a_dims[0];
            ([&[4], &a_dims[1..]].concat(), format!("slice_{{{}->P}}({a})", DIMS[from]))
        }
        13 if !a_dims.is_empty() && !a_dims.contains(&4) => {
            ([&[4], &a_dims[1..]].concat(), format!("take_{}({a}, Q)", DIMS[a_dims[0]]))
        }
        6 if !a_dims.is_empty() && a_dims[0] != 4 => {
            let along = DIMS[a_dims[0]];
            (a_dims.clone(), format!("update_{along}({a}, Q, take_{along}({a}, Q))"))
        }
        5 if can_be_added(&b_dims, &a_dims) => {
            (b_dims.clone(), format!("put_{}({a}, Q, {b})", DIMS[b_dims[0]]))
        }
        14 if !shared.is_empty() => (union, format!("select({b}, {a}, 0.0)")),
        16 if !a_dims.is_empty() && !union.contains(&4) => {
            let dims = union.iter().map(|&dim| if dim == a_dims[0] { 4 } else { dim }).collect();
            (dims, format!("opaque<f>_{{{}->P}}({a}, {b})", DIMS[a_dims[0]]))
        }
        16 => (union, format!("opaque<g>({a}, {b})")),
        15 if a_dims.contains(&0) && !a_dims.contains(&5) => {
            let dims: Vec<usize> =
                a_dims.iter().map(|&dim| if dim == 0 { 5 } else { dim }).collect();
            let left = brackets(&dims, dice, axes, false);
            *body += &format!("{name}{left} = rename({a})\n");
            return (name, dims);
        }
        8 if a_dims.len() > 1 => (a_dims[..1].to_vec(), format!("max_{}({a})", DIMS[a_dims[1]])),
        3 if a_dims.len() > 1 => (a_dims[..1].to_vec(), format!("sum_{}({a})", DIMS[a_dims[1]])),
        _ if !shared.is_empty() => {
            let summed = shared[dice.roll(shared.len())];
            let kept: Vec<usize> = union.into_iter().filter(|&d| d != summed).collect();
            (kept, format!("{a} *{} {b}", DIMS[summed]))
        }
        _ => (union, format!("{a} * {b}")),
    };
    let left = if dice.roll(4) == 0 { brackets(&dims, dice, axes, false) } else { String::new() };
    *body += &format!("{name}{left} = {right}\n");
    (name, dims)
}

/// Whether rows of `added` can be put into a value of `dims`.
fn can_be_added(dims: &[usize], added: &[usize]) -> bool {
    let Some((&first, rest)) = dims.split_first() else { return false };
    first != 4 && !added.contains(&first) && rest.iter().all(|d| *d == 4 || added.contains(d))
}

fn brackets(dims: &[usize], dice: &mut Dice<'_>, axes: usize, closed: bool) -> String {
    let mut free: Vec<&str> = ["X", "Y", "Z"][..axes].to_vec();
    let parts: Vec<String> = dims
        .iter()
        .map(|&dim| match dice.roll(3) {
            0 if !free.is_empty() => {
                format!("{}_{}", DIMS[dim], free.remove(dice.roll(free.len())))
            }
            1 if free.len() > 1 && dice.roll(3) == 0 => {
                format!("{}_{}", DIMS[dim], free.drain(..2).collect::<String>())
            }
            2 if !closed && dice.roll(3) == 0 => {
                if free.is_empty() || dice.roll(3) > 0 {
                    format!("{}_?", DIMS[dim])
                } else {
                    format!("{}_{{{},?}}", DIMS[dim], free.remove(dice.roll(free.len())))
                }
            }
            _ => DIMS[dim].to_owned(),
        })
        .collect();
    format!("[{}]", parts.join(", "))
}

/// A program on two axes, as one on the parts of one axis.
fn parts(numbers: &[u32], axes: usize, operations: usize) -> Sketch {
    let Sketch { text } = sketch(numbers, axes, operations);
    let mesh = text.lines().find(|line| line.starts_with("mesh")).unwrap_or_default();
    let sizes: Vec<u64> =
        mesh.split(['=', ' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let kind = ["ring", "line"].into_iter().find(|kind| mesh.contains(kind)).unwrap_or_default();
    let whole = format!("mesh A={} as {}x{} {kind}", sizes[0] * sizes[1], sizes[0], sizes[1]);
    let renamed = text.replace(mesh, "MESH").replace("_XY", "_A").replace("_YX", "_{A.1,A.0}");
    let renamed = renamed.replace('X', "A.0").replace('Y', "A.1");
    Sketch { text: renamed.replace("MESH", whole.trim_end()) }
}

/// A block of layers: what is carried goes through one or two operations, with parameters of each
/// layer or of all.
fn layers(numbers: &[u32], axes: usize, operations: usize) -> Sketch {
    let mut dice = Dice::new(numbers);
    let names: Vec<String> = ["X", "Y"][..axes]
        .iter()
        .map(|name| format!("{name}={}", [2, 4, 3][dice.roll(3)]))
        .collect();
    let sizes: Vec<usize> = (0..3).map(|_| [24, 96, 480, 4800, 49152][dice.roll(5)]).collect();
    let mut text =
        format!("hardware {}\nmesh {}\n", ["tpu-v5p", "tpu-v5e"][dice.roll(2)], names.join(", "));
    text += &format!(
        "dim I={}, J={}, K={}\ninput a{}\n",
        sizes[0],
        sizes[1],
        sizes[2],
        brackets(&[0, 1], &mut dice, axes, true)
    );
    let carried =
        if dice.roll(2) == 0 { brackets(&[0, 1], &mut dice, axes, false) } else { String::new() };
    let mut params = [String::new(), String::new()];
    let mut body = String::new();
    for i in 0..operations {
        let mut param = |name: &str, dims: &[usize], dice: &mut Dice<'_>| {
            let declared = format!("param {name}{i}{}\n", brackets(dims, dice, axes, true));
            params[dice.roll(2)] += &declared;
        };
        body += &match dice.roll(if i + 1 < operations { 4 } else { 5 }) {
            0 => "  a = gelu(a)\n".to_owned(),
            1 => {
                param("V", &[1], &mut dice);
                format!("  a = a * V{i}\n")
            }
            2 => {
                param("A", &[0, 1], &mut dice);
                format!("  a = a + A{i}\n")
            }
            3 => {
                param("S", &[0], &mut dice);
                format!("  a = S{i} * a\n")
            }
            _ => {
                param("W", &[1, 2], &mut dice);
                param("U", &[2, 1], &mut dice);
                format!("  a = (a *J W{i}) *K U{i}\n")
            }
        };
    }
    let [of_all, of_each] = params;
    text += &format!(
        "{of_all}repeat L={} {{\n  carry a{carried}\n{of_each}{body}}}\n",
        2 + dice.roll(3)
    );
    text += &format!("output a{}\n", brackets(&[0, 1], &mut dice, axes, true));
    Sketch { text }
}

/// A product to which values with no sum are added, before another product or a sum: a sum can stay
/// pending where the others are zero on all devices but one.
fn residuals(numbers: &[u32], axes: usize, operations: usize) -> Sketch {
    let mut dice = Dice::new(numbers);
    let mesh: Vec<String> = ["X", "Y"]
        .iter()
        .take(axes)
        .map(|axis| format!("{axis}={}", [2, 4][dice.roll(2)]))
        .collect();
    let sizes = [48, 480, 4800, 49152];
    let dims: Vec<String> =
        DIMS[..4].iter().map(|dim| format!("{dim}={}", sizes[dice.roll(4)])).collect();
    let mut text = format!("hardware tpu-v5p\nmesh {}\ndim {}\n", mesh.join(", "), dims.join(", "));
    let added: &[usize] = if dice.roll(3) == 0 { &[2] } else { &[0, 2] };
    for (name, dims) in [("A", &[0, 1][..]), ("B", &[1, 2]), ("R", added), ("W", &[2, 3])] {
        let closed = dice.roll(4) > 0;
        text += &format!("input {name}{}\n", brackets(dims, &mut dice, axes, closed));
    }
    text += "T0 = A *J B\n";
    text += ["T1 = T0 + R\n", "T1 = R + T0\n", "T1 = R - T0\n"][dice.roll(3)];
    let (last, dims) = match dice.roll(3) {
        _ if operations < 3 => ("T1", [0, 2]),
        0 => {
            text += "T2 = T1 + T0\n";
            ("T2", [0, 2])
        }
        1 => {
            text += "T2 = T1 + R\n";
            ("T2", [0, 2])
        }
        _ => {
            text += "T2 = T1 *K W\n";
            ("T2", [0, 3])
        }
    };
    let given = if dice.roll(4) == 0 { " {U_X}" } else { "" };
    let shape = if given.is_empty() {
        brackets(&dims, &mut dice, axes, true)
    } else {
        format!("[{}, {}]", DIMS[dims[0]], DIMS[dims[1]])
    };
    text += &format!("output {last}{shape}{given}\n");
    if dice.roll(3) == 0 {
        text += &format!("output R{}\n", brackets(added, &mut dice, axes, true));
    }
    Sketch { text }
}

/// Plans of the program as it is written, on whole axes, whatever the memory.
fn as_written(objective: Objective) -> Options {
    Options {
        objective,
        memory: Some(f64::INFINITY),
        grouping: Grouping::AsWritten,
        parts: AxisParts::AsWritten,
        ..Options::default()
    }
}

fn agree(sketch: &Sketch) -> Result<(), TestCaseError> {
    let checked = shardwise::check("random", &sketch.text, &Options::default());
    let Some(program) = checked.program else {
        return Err(TestCaseError::reject("sizes do not divide"));
    };
    for (objective, goal) in [(Objective::Serial, Goal::Serial), (Objective::Comm, Goal::Comm)] {
        let wanted = optimum(&program, goal);
        if let Some(bounded) = bounded_program(&program, objective.compute()) {
            let close = rounding_s(wanted);
            prop_assert!(
                bounded.bound_s <= wanted + close,
                "{} bounds {wanted}\n{}",
                bounded.bound_s,
                sketch.text
            );
            prop_assert!(
                bounded.found_s >= wanted - close,
                "{} is below {wanted}\n{}",
                bounded.found_s,
                sketch.text
            );
        }
        match shardwise::plan("random", &sketch.text, &as_written(objective)) {
            Err(findings) => prop_assert!(wanted.is_infinite(), "{findings}\n{}", sketch.text),
            Ok(planned) => {
                let given = if goal == Goal::Serial {
                    planned.report.serial_s
                } else {
                    planned.report.comm_s
                };
                prop_assert_eq!(planned.status_name(), "optimal");
                prop_assert!(
                    (given - wanted).abs() <= 1e-9 * wanted.max(1e-9),
                    "{given} against {wanted}\n{}\n{planned}",
                    sketch.text
                );
            }
        }
    }
    Ok(())
}

/// A program on one axis in which every value is used once: branches that are joined in the end.
fn branches(numbers: &[u32], operations: usize) -> Sketch {
    let mut dice = Dice::new(numbers);
    let sizes = [96, 480, 4800, 49152];
    let dims: Vec<String> =
        DIMS[..4].iter().map(|dim| format!("{dim}={}", sizes[dice.roll(4)])).collect();
    let mut text = format!("hardware tpu-v5p\nmesh X=4\ndim {}\n", dims.join(", "));
    let mut unused: Vec<(String, Vec<usize>)> = Vec::new();
    for i in 0..3 {
        let first = dice.roll(4);
        let dims = vec![first, (first + 1 + dice.roll(3)) % 4];
        text += &format!("input A{i}{}\n", brackets(&dims, &mut dice, 1, true));
        unused.push((format!("A{i}"), dims));
    }
    for i in 0..operations {
        let (a, a_dims) = unused.remove(dice.roll(unused.len()));
        let (dims, right) = if unused.is_empty() || dice.roll(3) == 0 {
            (a_dims, format!("gelu({a})"))
        } else {
            let (b, b_dims) = unused.remove(dice.roll(unused.len()));
            let mut union = a_dims.clone();
            union.extend(b_dims.iter().filter(|dim| !a_dims.contains(dim)));
            match a_dims.iter().find(|dim| b_dims.contains(dim)) {
                Some(&summed) if union.len() > 1 => {
                    union.retain(|&dim| dim != summed);
                    (union, format!("{a} *{} {b}", DIMS[summed]))
                }
                _ => (union, format!("{a} * {b}")),
            }
        };
        text += &format!("T{i} = {right}\n");
        unused.push((format!("T{i}"), dims));
    }
    for (name, dims) in &unused {
        text += &format!("output {name}{}\n", brackets(dims, &mut dice, 1, true));
    }
    Sketch { text }
}

/// The schedule beside the shortest of all plans: the claim of the search is true, and most of its
/// schedules are the shortest.
#[test]
fn schedules_are_as_short_as_claimed() {
    let (mut compared, mut shortest) = (0, 0);
    for (i, numbers) in draws().take(160).enumerate() {
        let Sketch { text } = branches(&numbers, 2 + i % 3);
        let checked = shardwise::check("random", &text, &Options::default());
        let Some(wanted_s) = checked.program.as_ref().and_then(shortest_schedule) else { continue };
        let objective = Objective::Scheduled;
        let options = as_written(objective);
        let Ok(planned) = shardwise::plan("random", &text, &options) else { continue };
        let (makespan_s, bound_s) = (planned.report.schedule.makespan_s, planned.lower_bound_s());
        let close = 1e-9 * wanted_s.max(1e-9);
        assert!(bound_s <= wanted_s + close, "{bound_s} bounds {wanted_s}\n{text}\n{planned}");
        if planned.status_name() == "optimal" {
            assert!(makespan_s <= wanted_s + close, "{wanted_s} is shorter\n{text}\n{planned}");
        }
        compared += 1;
        shortest += usize::from(makespan_s <= wanted_s + close);
    }
    assert!(compared >= 100 && shortest * 20 >= compared * 19, "{shortest} of {compared}");
}

fn run(cases: u32, axes: usize, operations: usize) {
    run_of(sketch, cases, axes, operations);
}

fn run_of(sketch: fn(&[u32], usize, usize) -> Sketch, cases: u32, axes: usize, operations: usize) {
    let program = |numbers: Vec<u32>| sketch(&numbers, axes, operations);
    for_all(cases, &numbers(64).prop_map(program), |sketch| agree(&sketch));
}

#[test]
fn one_axis_one_to_three_operations() {
    run(300, 1, 1);
    run(300, 1, 2);
    run(150, 1, 3);
}

#[test]
fn two_axes_one_and_two_operations() {
    run(300, 2, 1);
    run(60, 2, 2);
}

#[test]
fn parts_of_an_axis() {
    run_of(parts, 200, 2, 1);
    run_of(parts, 40, 2, 2);
}

#[test]
fn three_axes_one_operation() {
    run(40, 3, 1);
}

#[test]
fn three_axes_two_operations() {
    run(2, 3, 2);
}

#[test]
fn layers_on_one_axis() {
    run_of(layers, 150, 1, 1);
    run_of(layers, 40, 1, 2);
}

#[test]
fn layers_on_two_axes() {
    run_of(layers, 6, 2, 1);
}

#[test]
fn sums_that_stay_pending_past_what_is_added() {
    run_of(residuals, 600, 1, 2);
    run_of(residuals, 400, 1, 3);
    run_of(residuals, 40, 2, 2);
}
