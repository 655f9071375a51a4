//! Pipelines of several blocks: planned, run on simulated devices stage by stage, and compared with
//! pipelines of one block and with a schedule that is computed apart.

use std::fmt::Write as _;

use proptest::prelude::*;
use shardwise::tune::{Request, tune};
use shardwise::verify::Sizes;
use shardwise::{Options, Planned, Strategy as Planning};
use shardwise_ir::program::BlockKind;
use shardwise_passes::held::HeldKind;
use shardwise_passes::stage_report::{self, StageReport};
use shardwise_tests::close;
use shardwise_tests::properties::{checked_plans, plan};
use shardwise_tests::random::{Dice, for_all, numbers};

const SCHEDULES: [&str; 7] = [
    "",
    ", schedule=1f1b",
    ", schedule=zb-h1",
    ", schedule=dualpipe",
    ", schedule=zb-v",
    ", schedule=dualpipe-v",
    ", chunks=2",
];

const LAYERS: [&str; 2] = [
    "param W#[D, F_Y], V#[F_Y, D]\nx = x + gelu(x *D W#) *F V#\n",
    "param g#[D]\nx = x * g# + tanh(x)\n",
];

const EMBEDDINGS: [&str; 4] = [
    "",
    "stage first {\nparam Table[F_Y, D]\nx = e *F Table\n}\n",
    "stage first {\nx = e *F Shared\n}\n",
    "stage first {\ncarry x\nparam Table[F_Y, D]\nx = x + e *F Table\n}\n",
];

/// A pipeline of two to four blocks of layers, with what may stand beside them.
fn random_pipeline(numbers: &[u32]) -> String {
    let mut dice = Dice::new(numbers);
    let (stages, schedule) = (*dice.pick(&[2, 4]), *dice.pick(&SCHEDULES));
    let embedding = *dice.pick(&EMBEDDINGS);
    let mut body = embedding.to_owned();
    for block in 0..=dice.roll(3) {
        let count = 1 + dice.roll(4);
        let layer = dice.pick(&LAYERS).replace('#', &block.to_string());
        let checkpoint = if dice.one_in(3) { "checkpoint\n" } else { "" };
        let _ = write!(body, "repeat L{block}={count} {{\ncarry x\n{layer}{checkpoint}}}\n");
        if dice.one_in(4) {
            let _ = write!(body, "stage s{block} {{\ncarry x\nparam m{block}[D]\n");
            let _ = write!(body, "x = gelu(x) * m{block}\n}}\n");
        }
    }
    // Enough layers for each chunk of each stage.
    let last = LAYERS[0].replace('#', "z");
    let _ = write!(body, "repeat Last=8 {{\ncarry x\n{last}}}\n");
    let head = *dice.pick(&["x *D Out", "tanh(x) *D Out", "x *D Shared"]);
    let own = if head.contains("Out") { "param Out[D, F]\n" } else { "" };
    let (loss, end) = if dice.one_in(4) {
        ("", "output y[B_X, F]\n")
    } else {
        ("loss = sum_{B,F}(square(y - t))\n", "backward from loss\noutput loss[]\n")
    };
    let _ = write!(body, "stage head {{\n{own}y = {head}\n{loss}}}\n");
    let input = if embedding.contains("x = e") { "" } else { "input x[B_X, D]\n" };
    format!(
        "hardware tpu-v5p\nmesh Z={stages}, X=2, Y=2\ndim B=32, D=8, F=16\n\
         {input}input e[B_X, F], t[B_X, F]\nparam Shared[F, D_Y]\n\
         pipeline Z, microbatches=8 of B{schedule} {{\n{body}}}\n{end}"
    )
}

#[test]
fn random_pipelines_of_blocks_are_right() {
    for_all(64, &numbers(24), |numbers| {
        checked_plans("random", &random_pipeline(&numbers), Sizes::Scaled);
        Ok(())
    });
}

fn by_stage(planned: &Planned) -> Vec<StageReport> {
    let pipelines = &planned.report.schedule.pipelines;
    stage_report::by_stage(&planned.plan, &pipelines[0])
}

/// Layers that are alike take the same time and memory on every stage, however many blocks they are
/// written as.
#[test]
fn equal_layers_in_several_blocks_are_as_those_in_one() {
    let schedules = proptest::sample::select(SCHEDULES.to_vec());
    let inputs = (1_u64..7, 1_u64..7, 8_u64..11, schedules);
    for_all(24, &inputs, |(first, second, third, schedule)| {
        let layer = "carry x\nparam W[D, F_Y], V[F_Y, D]\nx = x + gelu(x *D W) *F V\n";
        let source = |blocks: &[u64]| {
            let block = |(number, count): (usize, &u64)| {
                let layer = layer.replace('W', &format!("W{number}"));
                let layer = layer.replace('V', &format!("V{number}"));
                format!("repeat L{number}={count} {{\n{layer}}}\n")
            };
            let blocks: String = blocks.iter().enumerate().map(block).collect();
            format!(
                "hardware tpu-v5p\nmesh Z=2, X=2, Y=2\ndim B=4096, D=1024, F=4096\n\
                 input x[B_X, D], dy[B_X, D]\n\
                 pipeline Z, microbatches=8 of B{schedule} {{\n{blocks}}}\n\
                 backward from x given dy\noutput dx[B_X, D]\n"
            )
        };
        let planned = |blocks: &[u64]| plan("blocks", &source(blocks), Planning::Textbook);
        let one = planned(&[first + second + third]);
        let several = planned(&[first, second, third]);
        let [one_s, several_s] =
            [&one, &several].map(|of| of.report.schedule.pipelines[0].makespan_s);
        prop_assert!(close(one_s, several_s), "{one_s} {several_s}\n{several}");
        let [one_s, several_s] = [&one, &several].map(|of| of.report.serial_s);
        // Turns of each block are rounded up.
        prop_assert!((one_s - several_s).abs() <= 0.15 * one_s, "{one_s} {several_s}\n{several}");
        for (one, several) in by_stage(&one).iter().zip(by_stage(&several)) {
            prop_assert_eq!(one.layers, several.layers);
            prop_assert!(close(one.busy_s, several.busy_s), "{one:?} {several:?}");
            let (one, several) = (one.memory.peak_bytes, several.memory.peak_bytes);
            // The gradients of each block are summed at its end.
            prop_assert!((one - several).abs() <= 0.1 * one, "{one} {several}");
        }
        Ok(())
    });
}

/// Going forward, a microbatch is on a stage as soon as it has left the one before, and that has
/// sent it; this schedule is computed here from the steps of the plan.
#[test]
fn each_stage_takes_the_time_of_its_blocks() {
    for_all(24, &numbers(24), |numbers| {
        let source = random_pipeline(&numbers);
        let source =
            source.lines().filter(|line| !line.starts_with("backward")).collect::<Vec<_>>();
        let source = source.join("\n").replace(", schedule=1f1b", "");
        if source.contains("schedule") || source.contains("chunks") {
            return Err(TestCaseError::reject("another order"));
        }
        let planned = plan("forward", &source, Planning::Textbook);
        let program = &planned.plan.program;
        let staged = &planned.report.schedule.pipelines[0];
        let (stages, microbatches) = (staged.shape.stages as usize, staged.shape.microbatches);
        let mut busy = vec![0.0; stages];
        for (step, cost) in planned.plan.steps.iter().zip(&planned.report.steps) {
            let Some(pipeline) = program.pipeline(step.repeat) else { continue };
            let block = step.repeat.expect("it is in a pipeline");
            let is_layer = program.repeats[block].kind != BlockKind::Pipeline;
            let rows = program.has_batch(step.repeat, step.result.value);
            if is_layer && rows && cost.links.is_empty() {
                for (stage, held) in pipeline.stages.held().iter().enumerate() {
                    busy[stage] += *held as f64 * cost.seconds;
                }
            }
        }
        for (stage, busy_s) in busy.iter().enumerate() {
            let reported = staged.times.at(stage as u64).forward_s;
            // Collectives of a layer run beside its products, or take longer than these.
            prop_assert!(reported >= busy_s * (1.0 - 1e-9), "{reported} {busy_s}\n{source}");
        }
        let mut left = vec![0.0_f64; stages];
        for _ in 0..microbatches {
            let mut arrives = 0.0_f64;
            for (stage, left) in left.iter_mut().enumerate() {
                *left = left.max(arrives) + staged.times.at(stage as u64).forward_s;
                arrives = *left + staged.times.hop_s;
            }
        }
        let last = left.last().copied().unwrap_or_default();
        prop_assert!(close(staged.makespan_s, last), "{} {last}\n{source}", staged.makespan_s);
        Ok(())
    });
}

/// The memory of a plan is that of the stage that needs the most; a limit below it is kept.
#[test]
fn memory_is_that_of_the_fullest_stage() {
    let source = shardwise_tests::read("tests/programs/pipelines/blocks.shard");
    let planned = plan("blocks", &source, Planning::Search);
    let peaks: Vec<f64> = by_stage(&planned).iter().map(|of| of.memory.peak_bytes).collect();
    let most = peaks.iter().copied().fold(0.0, f64::max);
    assert!(close(planned.report.memory.peak_bytes, most), "{peaks:?}");
    let memory = Some(0.99 * most);
    let options = Options { memory, ..Options::default() };
    let less = shardwise::plan("blocks", &source, &options).expect("a plan with less");
    assert!(by_stage(&less).iter().all(|of| of.memory.peak_bytes <= 0.99 * most), "{less}");
    assert!(less.report.serial_s >= planned.report.serial_s * (1.0 - 1e-12));
}

/// A head that is twice as long is on the last stage only.
#[test]
fn a_head_makes_the_last_stage_longer() {
    let source = |vocabulary: u64| {
        format!(
            "hardware tpu-v5p\nmesh Z=4\ndim B=4096, D=1024, F=4096, M={vocabulary}\n\
             input x[B, D]\npipeline Z, microbatches=8 {{\nrepeat L=8 {{\ncarry x\n\
             param W[D, F], V[F, D]\nx = x + gelu(x *D W) *F V\n}}\n\
             stage head {{\nparam Out[D, M]\ny = x *D Out\n}}\n}}\noutput y[B, M]\n"
        )
    };
    let busy = |vocabulary: u64| -> Vec<f64> {
        let planned = plan("head", &source(vocabulary), Planning::Textbook);
        by_stage(&planned).iter().map(|of| of.busy_s).collect()
    };
    let (short, long) = (busy(8192), busy(16384));
    assert!(short[..3].iter().zip(&long).all(|(short, long)| close(*short, *long)));
    assert!(close(short[0], short[2]) && short[3] > short[2]);
    assert!(close(long[3] - short[3], short[3] - short[2]), "{short:?} {long:?}");
}

/// The gradient that a head gives back to the layers before it is no gradient of its weights, which
/// zero-bubble schedules delay.
#[test]
fn what_a_head_gives_back_is_not_delayed() {
    let source = "hardware tpu-v5p\nmesh Z=2\ndim B=4096, D=1024, F=4096, M=65536\n\
        input x[B, D]\npipeline Z, microbatches=4 of B, schedule=zb-h1 {\nrepeat L=2 {\ncarry x\n\
        param W[D, F], V[F, D]\nx = x + gelu(x *D W) *F V\n}\nstage head {\nparam Out[D, M]\n\
        loss = sum_{B,M}(square(x *D Out))\n}\n}\nbackward from loss\noutput loss[]\n";
    let planned = plan("head", source, Planning::Textbook);
    let last = planned.report.schedule.pipelines[0].times.at(1);
    // Of two products that are as long as the forward one, the head delays one.
    let delayed = last.weights_s / last.backward_s;
    assert!((0.25..0.6).contains(&delayed), "{last:?}");
}

/// `tune --free` releases such a pipeline with what is beside its layers.
#[test]
fn tune_releases_a_pipeline_of_blocks() {
    let source = shardwise_tests::read("tests/programs/pipelines/blocks.shard");
    let request = Request { free: true, best: 1, ..Request::of_chips(8) };
    let tuned = tune("blocks", &source, &request, &Options::default(), &|_| ());
    let winner = &tuned.expect("a strategy").winner;
    assert!(!winner.contains("stage ") && !winner.contains("pipeline "), "{winner}");
    checked_plans("winner", winner, Sizes::Scaled);
}

/// On a stage whose gradients no collective reduces, and where stages run forward and back in turns
/// all that the forward part reads is there until the end.
#[test]
fn sums_over_microbatches_and_what_stages_read_are_in_memory_until_the_last_one() {
    let held = |schedule: &str| {
        let source = format!(
            "hardware h100\nmesh Z=2\ndim B=64, T=16, D=2048, E=D, V=4096\n\
             input x[B, T, D], targets[B, T, V]\n\
             pipeline Z, microbatches=8 of B, schedule={schedule} {{\n\
             repeat L=2 {{\ncarry x\nparam W[D, E]\n\
             x = x + rename_{{E->D}}(gelu(x *D W))\n}}\n\
             stage head {{\nparam U[D, V]\nloss = sum_{{B,T,V}}(square(x *D U - targets))\n}}\n\
             }}\nbackward from loss\noptimizer sgd\noutput loss[]\n"
        );
        let planned = plan("summed", &source, Planning::Search);
        let of = |kind: HeldKind| {
            let own = planned.report.held.iter().filter(|(held, _)| *held == kind);
            own.map(|(_, bytes)| bytes).sum::<f64>()
        };
        (of(HeldKind::Parameters), of(HeldKind::Gradients), of(HeldKind::Inputs))
    };
    let targets = 2.0 * 64.0 * 16.0 * 4096.0;
    for schedule in ["1f1b", "gpipe", "zb-h1"] {
        let (parameters, gradients, inputs) = held(schedule);
        assert!(gradients >= parameters, "{schedule}: {gradients} of {parameters}");
        assert!(schedule == "gpipe" || inputs >= targets, "{schedule}: {inputs} of {targets}");
    }
}

/// At measured rates the largest of unequal stages takes what the plan does, what the allocator
/// holds included.
#[test]
fn the_largest_stage_has_the_peak_of_the_plan() {
    let source = "hardware h100, rates=measured\nmesh Z=4 ib, Y=8\n\
        dim B=512, T=1024, D=4096, F=16384\n\
        input x[B, T, D], dy[B, T, D]\n\
        pipeline Z, microbatches=32 of B, schedule=1f1b, layers=[3, 5, 5, 3] {\nrepeat L=16 {\n\
        carry x\nparam W[D, F_Y], V[F_Y, D]\nx = x + gelu(x *D W) *F V\n}\n}\n\
        backward from x given dy\n";
    let planned = plan("unequal", source, Planning::Search);
    let json = planned.json();
    let stages = json.pipelines[0].by_stage.iter().map(|stage| stage.peak_bytes);
    assert!(json.memory.held.iter().any(|held| held.kind == "allocator"), "{planned}");
    assert_eq!(stages.max(), Some(json.memory.peak_bytes), "{planned}");
}
