//! Microbatches: a step split into them computes the step of the complete batch, reduced once, in
//! the memory of one microbatch.

use std::collections::BTreeMap;

use shardwise::verify::Sizes;
use shardwise::{Options, Pass, Planned, Strategy as Planning};
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::{Blocks, CollectiveKind};
use shardwise_tests::planning::planned;
use shardwise_tests::properties::{checked_plans, program};
use shardwise_tests::random::{for_all, numbers};
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{files, read};

fn options(strategy: Planning) -> Options {
    Options { strategy, ..Options::default() }
}

fn plan(name: &str, source: &str, options: &Options) -> Planned {
    shardwise::plan(name, source, options).unwrap_or_else(|e| panic!("{name}: {e}\n{source}"))
}

fn searched(source: &str) -> Planned {
    plan("microbatches", source, &Options::default())
}

fn fixture(name: &str) -> String {
    read(&format!("tests/programs/microbatches/{name}.shard"))
}

#[test]
fn programs_with_microbatches_are_right_and_their_plans_kept() {
    for (name, source) in files("tests/programs/microbatches", ".shard") {
        let [planned, _] = checked_plans(&name, &source, Sizes::Scaled);
        plan_snapshot("microbatches", &name, &planned);
    }
}

#[test]
fn the_page_is_right() {
    let page = read("compiler/docs/microbatches.md");
    let fenced = |language: &str| -> Vec<&str> {
        let start = format!("```{language}\n");
        page.split(start.as_str())
            .skip(1)
            .filter_map(|rest| rest.split_once("```"))
            .map(|(block, _)| block)
            .collect()
    };
    let sources = fenced("shard");
    assert!(!sources.is_empty(), "the page has programs");
    for source in &sources {
        checked_plans("microbatches.md", source, Sizes::Scaled);
    }
    // What it shows of the cut step is printed so, in this order; where it says `…` more is
    // printed.
    let printed =
        shardwise::print_after("microbatches.md", sources[0], &Options::default(), Pass::Gradient)
            .expect("it is right");
    let mut lines = printed.lines().map(str::trim);
    let shown = fenced("text").concat();
    assert!(shown.lines().count() > 10);
    for line in shown.lines().map(str::trim).filter(|line| *line != "…") {
        assert!(lines.any(|other| other == line), "{line}\n{printed}");
    }
    for (cut, code) in [("microbatches=8 of B", ""), ("microbatches=8 of D", "SW606")] {
        let checked = shardwise::check(
            "page",
            &sources[0].replace("microbatches=8", cut),
            &Options::default(),
        );
        assert_eq!(
            checked.findings.reports.first().map_or("", |report| report.diag.code),
            code,
            "{}",
            checked.findings
        );
    }
}

#[test]
fn one_microbatch_is_the_step_as_it_is() {
    for name in ["mlp", "layers"] {
        let source = fixture(name);
        let (one, none) = (
            source.replace("microbatches=8", "microbatches=1"),
            source.replace(", microbatches=8", ""),
        );
        assert_eq!(searched(&one).to_string(), searched(&none).to_string(), "{name}");
    }
}

/// How often values with a name that begins so are reduced, each reduction counted as often as it
/// is done.
fn reductions(planned: &Planned, prefix: &str) -> f64 {
    let reduces = |kind: &StepKind| match kind {
        StepKind::Collective(moved, _) => {
            [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter].contains(&moved.kind)
        }
        StepKind::Local(_) => false,
    };
    let steps = planned.plan.steps.iter().zip(&planned.report.steps);
    let of = steps.filter(|(step, _)| {
        reduces(&step.kind)
            && planned.plan.program.values[step.result.value].name.starts_with(prefix)
    });
    of.map(|(_, cost)| cost.times).sum()
}

#[test]
fn a_gradient_is_reduced_once_a_step_unless_memory_forbids() {
    let source = fixture("data-parallel");
    let once = searched(&source);
    assert_eq!((reductions(&once, "dWin"), reductions(&once, "dWout")), (1.0, 1.0), "{once}");
    let textbook = plan("microbatches", &source, &options(Planning::Textbook));
    assert_eq!(
        (reductions(&textbook, "dWin"), reductions(&textbook, "dWout")),
        (1.0, 1.0),
        "{textbook}"
    );
    // A little less memory than for both gradients unsharded: one of them is scattered in every
    // microbatch.
    let limit = once.report.memory.peak_bytes - 0.3 * 2.0 * 2048.0 * 8192.0;
    let limited =
        plan("microbatches", &source, &Options { memory: Some(limit), ..Options::default() });
    assert!(limited.report.memory.peak_bytes <= limit, "{limited}");
    let often = reductions(&limited, "dWin") + reductions(&limited, "dWout");
    assert!((often - 9.0).abs() < 1e-9, "{often}: {limited}");
    assert!(limited.report.serial_s > once.report.serial_s);
    // Layers: after the microbatches, each layer's once.
    let layers = plan("microbatches", &fixture("layers"), &options(Planning::Textbook));
    assert_eq!(
        (reductions(&layers, "dWin"), reductions(&layers, "dWout")),
        (40.0, 40.0),
        "{layers}"
    );
}

#[test]
fn what_microbatches_cost_grows_with_their_number_and_what_they_hold_does_not() {
    let source = fixture("layers");
    let of = |microbatches: u64| {
        let size = format!("B={}", 12288 * microbatches);
        searched(
            &source
                .replace("B=98304", &size)
                .replace("microbatches=8", &format!("microbatches={microbatches}")),
        )
    };
    let [eight, nine, many] = [8, 9, 64].map(of);
    let serial_s = |planned: &Planned| planned.report.serial_s;
    let one_more_s = serial_s(&nine) - serial_s(&eight);
    assert!(
        (serial_s(&many) - serial_s(&eight) - 56.0 * one_more_s).abs() <= 1e-9 * serial_s(&many),
        "{eight}\n{nine}\n{many}"
    );
    // As many statements, laid out as often.
    assert_eq!(eight.plan.steps.len(), many.plan.steps.len());
    assert_eq!(eight.report.schedule.runs.len(), many.report.schedule.runs.len());
    // Inputs and outputs of the whole batch apart, memory is that of one microbatch.
    let rows = |planned: &Planned| {
        let program = &planned.plan.program;
        let batch = program.dims.iter().find(|dim| dim.name == "B").map_or(0, |dim| dim.size);
        3.0 * 2.0 * batch as f64 * 4096.0 / 16.0
    };
    let beside = |planned: &Planned| planned.report.memory.peak_bytes - rows(planned);
    assert!(
        (beside(&many) - beside(&eight)).abs() <= 0.35 * beside(&eight),
        "{} {}",
        beside(&many),
        beside(&eight)
    );
}

#[test]
fn activations_are_those_of_one_microbatch() {
    let source = fixture("layers");
    // The textbook does not hold what it gathered of weights.
    let of = |source: &str| plan("microbatches", source, &options(Planning::Textbook));
    let (cut, whole) = (of(&source), of(&source.replace(", microbatches=8", "")));
    // The sums that microbatches add to are there beside: both weights' gradients of forty layers,
    // a quarter each.
    let sums = 40.0 * 2.0 * 2.0 * 4096.0 * 16384.0 / 4.0;
    assert!(
        cut.report.memory.peak_bytes - sums < 0.2 * whole.report.memory.peak_bytes,
        "{cut}\n{whole}"
    );
}

#[test]
fn a_layers_parameters_are_held_once_however_many_microbatches() {
    let source = fixture("layers");
    let (cut, whole) = (searched(&source), searched(&source.replace(", microbatches=8", "")));
    assert!((cut.report.memory.resident_bytes - whole.report.memory.resident_bytes).abs() < 1.0);
    assert!(
        (cut.cost().flops / whole.cost().flops - 1.0).abs() < 1e-3,
        "{} {}",
        cut.cost().flops,
        whole.cost().flops
    );
}

#[test]
fn gradients_of_layers_leave_the_microbatches_layer_by_layer() {
    let printed =
        shardwise::print_after("layers", &fixture("layers"), &Options::default(), Pass::Gradient)
            .expect("it is right");
    assert!(
        printed.contains(
            "}\nrepeat L reversed {\n  dWout = total(dWout.part)\n  dWin = total(dWin.part)\n}\n"
        ),
        "{printed}"
    );
    let program = program("layers", &fixture("layers"));
    let places: BTreeMap<&str, usize> = program
        .values
        .iter()
        .map(|value| (value.name.as_str(), program.repeats.path(value.repeat).len()))
        .collect();
    assert_eq!(
        [places["x.part"], places["h"], places["dWin.part"], places["dWin"], places["dx"]],
        [1, 2, 2, 1, 0]
    );
}

const STEPS: [&str; 9] = [
    "x = x + tanh(x *D W) *F V\n",
    "x = x * s\n",
    "x = x + a\n",
    "x = tanh(x)\n",
    "x = x + (a *D W) *F V\n",
    "x = layernorm_D(x) + a\n",
    "x = x * (s * s)\n",
    "x = select(less(x, a), x, 0.0) + a\n",
    "x = x + 0.1 * (x *D softmax_F(W)) *F V\n",
];
const LOSSES: [&str; 4] = [
    "Loss = sum_{B,D}(x * a)\n",
    "Loss = mean_{B,D}(x * x)\n",
    "Loss = 0.5 * sum_{B,D}(x * x) + 0.01 * sum_{D,F}(W * W)\n",
    "Rows = sum_D(x * a)\nPart = mean_B(Rows) / 2.0\nLoss = Part - 0.25 * sum_B(Rows)\n",
];
const SPLITS: [&str; 4] = ["[B, D]", "[B_X, D]", "[B, D_X]", "[B_Y, D_X]"];
const WEIGHTS: [&str; 4] = ["[D, F]", "[D_X, F]", "[D, F_Y]", "[D_Y, F_X]"];

/// A step of random statements, in layers or not, cut into two or four microbatches.
fn random(numbers: &[u32]) -> String {
    let pick = |place: usize, of: &[&'static str]| of[numbers[place] as usize % of.len()];
    let body = [pick(0, &STEPS), pick(1, &STEPS)].concat();
    let weights = format!("param W{}, V[F, D_X]\n", pick(2, &WEIGHTS));
    let (declared, body) = match numbers[3] % 3 {
        // The loss of the third kind reads a weight, which must then be nobody's layer's.
        0 if numbers[5] % 4 != 2 => {
            ("", format!("repeat L=2 {{\ncarry x\n{weights}{body}x = x + tanh(x *D W) *F V\n}}\n"))
        }
        1 => (
            weights.as_str(),
            format!("repeat L=2 {{\ncarry x\n{body}x = x + tanh(x *D W) *F V\n}}\n"),
        ),
        _ => (
            weights.as_str(),
            body.replace("x = ", "y = ").replace('x', "In").replace("y = ", "x = "),
        ),
    };
    let flat = !body.contains("repeat");
    let body = if flat {
        format!("x = x0 + tanh(x0 *D W) *F V\nx1 = {}x2 = x1 * s\n", "tanh(x)\n")
    } else {
        body
    };
    let (input, end) = if flat { ("x0", "x2") } else { ("x", "x") };
    let cut = if numbers[4].is_multiple_of(2) { 2 } else { 4 };
    let loss = pick(5, &LOSSES)
        .replace("x * ", &format!("{end} * "))
        .replace(" * x)", &format!(" * {end})"));
    let mut source = "hardware tpu-v5p\nmesh X=2, Y=2\ndim B=8, D=4, F=8\n".to_owned();
    source += &format!(
        "input {input}{}, a{}\nparam s[D]\n{declared}{body}{loss}",
        pick(6, &SPLITS),
        pick(7, &SPLITS)
    );
    source
        + &format!(
            "backward from Loss, microbatches={cut}\noutput Loss[], d{input}{}\n",
            pick(8, &SPLITS)
        )
}

#[test]
fn random_steps_agree_with_the_whole_batch() {
    for_all(24, &numbers(9), |numbers| {
        checked_plans("random", &random(&numbers), Sizes::Full);
        Ok(())
    });
}

/// Programs that cannot be cut, with the code that says why.
#[test]
fn what_cannot_be_cut_is_reported() {
    let head =
        "hardware tpu-v5p\nmesh X=4\ndim B=16, D=8, N=B*D, P=10 pad\ninput x[B_X, D]\nparam W[D]\n";
    let cases = [
        ("Loss = sum_{B,D}(x * W)\nbackward from Loss, microbatches=3", "SW607"),
        ("Loss = sum_{B,D}(x * W)\nbackward from Loss, microbatches=8", "SW607"),
        ("Loss = sum_{B,D}(x * W)\nbackward from Loss, microbatches=2 of D", "SW606"),
        ("Loss = sum_{B,D}(x * W)\nbackward from Loss, microbatches=2 of Q", "SW102"),
        (
            "h[B, D] = x * W\ns = sum_B(h)\nLoss = sum_D(s * s)\nbackward from Loss, \
                microbatches=2",
            "SW608",
        ),
        ("h = x * W\nLoss = sum_{B,D}(softmax_B(h))\nbackward from Loss, microbatches=2", "SW608"),
        ("h = x * W\nm = max_B(h)\nLoss = sum_D(m)\nbackward from Loss, microbatches=2", "SW608"),
        ("Loss = sum_{B,D}(x * W * position_B(x))\nbackward from Loss, microbatches=2", "SW608"),
        (
            "repeat L=2 {\ncarry x\nx = x - mean_B(x * W)\n}\nLoss = sum_{B,D}(x)\n\
                backward from Loss, microbatches=2",
            "SW608",
        ),
        (
            "y[N_?] = reshape(x * W)\nLoss = sum_N(y * y)\nbackward from Loss, microbatches=2\n\
                output y[N_X]",
            "SW606",
        ),
    ];
    for (statements, code) in cases {
        let checked =
            shardwise::check("uncut", &format!("{head}{statements}\n"), &Options::default());
        let codes: Vec<&str> =
            checked.findings.reports.iter().map(|report| report.diag.code).collect();
        assert_eq!(codes, [code], "{statements}\n{}", checked.findings);
    }
    let rows = format!(
        "{head}y[N_?] = reshape(x * W)\nLoss = sum_N(y * y)\nbackward from Loss, microbatches=2\n\
            output dW[D]\n"
    );
    checked_plans("rows", &rows, Sizes::Scaled);
}

#[test]
fn blocks_of_microbatches_are_read_or_refused() {
    let head = "hardware tpu-v5p\nmesh X=4\ndim B=16, R=4, D=8\ninput x[B_X, D]\n";
    let cases = [
        ("microbatches B=R*4 {\ny = 2.0 * part(x)\n}\nz = join(y)", ""),
        ("microbatches B=R*2 {\ny = 2.0 * part(x)\n}\nz = join(y)", "SW108"),
        ("microbatches B=R*4 {\nmicrobatches B=R*4 {\ny = 2.0 * part(x)\n}\n}", "SW701"),
        ("repeat L=2 {\nmicrobatches B=R*4 {\ny = 2.0 * part(x)\n}\n}", "SW701"),
        ("y = part(x)", "SW107"),
        ("microbatches B=R*4 {\ny = 2.0 * part(x)\n}\nz = join(x)", "SW107"),
        ("microbatches B=R*4 {\ny = sum_R(part(x))\n}\nz = join(y)", "SW107"),
        ("microbatches B=R*4 {\ny = 2.0 * part(x)\n}\noutput y[R, D]", "SW705"),
        ("microbatches B=R*4 {\n}", "SW704"),
        ("microbatches B=R {\ny = 2.0 * part(x)\n}", "SW002"),
    ];
    for (statements, code) in cases {
        let checked =
            shardwise::check("block", &format!("{head}{statements}\n"), &Options::default());
        let first = checked.findings.reports.first().map_or("", |report| report.diag.code);
        assert_eq!(first, code, "{statements}\n{}", checked.findings);
    }
}

/// A larger batch has larger microbatches.
#[test]
fn a_batch_with_microbatches_turns_a_plan_compute_bound() {
    let source = read("tests/programs/microbatches/adam.shard");
    let at = |batch: u64| {
        let sized = source.replace("B=8192", &format!("B={batch}"));
        planned(&sized, &Options::default()).cost()
    };
    let thresholds = at(8192).thresholds;
    let [threshold] = &thresholds[..] else { panic!("{thresholds:?}") };
    let [crossover] = &threshold.crossovers[..] else { panic!("{threshold:?}") };
    assert_eq!((threshold.dim.as_str(), crossover.above), ("B", "compute"));
    let multiple = (crossover.size / 32.0).floor() as u64 * 32;
    let bound = |batch: u64| at(batch).verdict.bound;
    assert_eq!([bound(multiple - 320), bound(multiple + 320)], ["communication", "compute"]);
}
