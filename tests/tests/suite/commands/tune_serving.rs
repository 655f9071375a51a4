//! `tune --prefill`: deployments of both phases, against enumeration of every number of replicas
//! with times of plans; together, with what a device holds of both, block by block.

use std::collections::BTreeMap;

use shardwise::tune::{Kind, Refused, Request, SERVING_FORMATS, Serve, Served, serve, tune};
use shardwise::{Options, plan};
use shardwise_ir::Role;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::Program;
use shardwise_ir::sharding::Pin;

/// A prefill of prompts of 256 tokens, and a decode step.
const PREFILL: &str = "hardware h100\ndim B=1, T=256, D=2048, F=8192\ninput x[B, T, D]\n\
    param win[D, F], wout[F, D]\noutput y[B, T, D] = gelu(x *D win) *F wout\n";
const DECODE: &str = "hardware h100\ndim B=1, D=2048, F=8192\ninput x[B, D]\n\
    param win[D, F], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";
/// A decode step that reads a cache.
const CACHED: &str = "hardware h100\ndim B=1, S=256, D=2048, F=8192\ninput x[B, D]\n\
    state c[B, S, D]\nparam win[D, F], wout[F, D]\na[B, D] = softmax_S(x *D c) *S c\n\
    output y[B, D] = gelu(a *D win) *F wout\n";

const CHIPS: u64 = 8;
const TOKENS: u64 = 100;
const SIZES: [u64; 4] = [1, 2, 4, 8];
const PROMPTS: [u64; 2] = [1, 2];
const SEQUENCES: [u64; 3] = [1, 16, 256];

fn served(first_s: Option<f64>, next_s: Option<f64>) -> Result<Served, Refused> {
    served_within(DECODE, [first_s, next_s], &Options::default())
}

fn served_within(
    decode: &str,
    [first_s, next_s]: [Option<f64>; 2],
    options: &Options,
) -> Result<Served, Refused> {
    let serve_of = Serve {
        prefill: ("prefill".to_owned(), PREFILL.to_owned()),
        decode: ("decode".to_owned(), decode.to_owned()),
        tokens: TOKENS,
        prompts: PROMPTS.to_vec(),
        sequences: SEQUENCES.to_vec(),
        first_s,
        next_s,
    };
    let request = Request { best: 100, ..Request::of_chips(CHIPS) };
    serve(&serve_of, &request, options, &|_| ())
}

/// The best strategy on a replica.
struct Replica {
    chips: u64,
    batch: f64,
    seconds: f64,
    peak_bytes: f64,
    /// For each device, the blocks of what it keeps: their first elements, sizes and bytes.
    kept: Vec<BTreeMap<String, Block>>,
}

/// First element and number of elements along each dimension, and bytes.
type Block = (Vec<(u64, u64)>, f64);

fn replica(source: &str, chips: u64, batch: u64, options: &Options) -> Option<Replica> {
    let source = source.replace("B=1", &format!("B={batch}"));
    let request = Request { best: 1, ..Request::of_chips(chips) };
    let tuned = tune("phase", &source, &request, options, &|_| ()).ok()?;
    let best = &tuned.strategies[0];
    let planned = plan("phase", &tuned.plan, options).unwrap_or_else(|_| panic!("{}", tuned.plan));
    Some(Replica {
        chips,
        batch: batch as f64,
        seconds: best.objective_s,
        peak_bytes: best.peak_bytes,
        kept: (0..chips).map(|device| blocks(&planned.plan.program, device)).collect(),
    })
}

/// The parameters and state of a device.
fn blocks(program: &Program, device: u64) -> BTreeMap<String, Block> {
    let kept = |id: &ValueId| matches!(program.values[*id].role, Some(Role::Param | Role::State));
    let ids = program.values.indices().filter(kept);
    ids.map(|id| (program.values[id].name.clone(), block(program, id, device))).collect()
}

fn block(program: &Program, id: ValueId, device: u64) -> Block {
    let value = &program.values[id];
    // The place along each axis: the last one changes with every device.
    let mut places = vec![0; program.mesh.axes.len()];
    let mut rest = device;
    for (place, axis) in places.iter_mut().zip(&program.mesh.axes).rev() {
        (*place, rest) = (rest % axis.size, rest / axis.size);
    }
    let sharding = value.declared_sharding.as_ref().and_then(Pin::exact).expect("a plan has it");
    let along = |(&dim, axes): (&DimId, &shardwise_ir::sharding::AxisList)| {
        let (mut number, mut of) = (0, 1);
        for axis in axes {
            let size = axis.size(&program.mesh);
            (number, of) = (number * size + places[axis.axis().index()], of * size);
        }
        let size = program.dims[dim].size / of;
        (number * size, size)
    };
    let ranges: Vec<(u64, u64)> = value.dims.iter().zip(&sharding.dims).map(along).collect();
    let elements: u64 = ranges.iter().map(|(_, size)| size).product();
    (ranges, elements as f64 * f64::from(value.dtype.bits()) / 8.0)
}

/// What a device holds at most while `running` runs, and the other replica waits on its devices.
fn held(running: &Replica, waiting: &Replica) -> f64 {
    let is_alike = |name: &String| {
        let pairs = running.kept.iter().zip(&waiting.kept);
        pairs.into_iter().all(|(one, other)| one.get(name) == other.get(name))
    };
    let beside = waiting.kept[0].iter().filter(|(name, _)| !is_alike(name));
    running.peak_bytes + beside.map(|(_, (_, bytes))| bytes).sum::<f64>()
}

/// The replicas of a phase.
fn replicas(source: &str, batches: &[u64], options: &Options) -> Vec<Replica> {
    let pairs = SIZES.iter().flat_map(|&chips| batches.iter().map(move |&batch| (chips, batch)));
    pairs.filter_map(|(chips, batch)| replica(source, chips, batch, options)).collect()
}

/// The most requests a second.
#[derive(Default)]
struct Most {
    apart: f64,
    together: f64,
    /// Together, if each phase had the memory of a device for itself.
    unlimited: f64,
}

/// That, by trying everything.
fn by_enumeration(decode: &str, first_s: f64, next_s: f64, options: &Options) -> Most {
    let mut most = Most::default();
    let of_decode = replicas(decode, &SEQUENCES, options);
    for p in replicas(PREFILL, &PROMPTS, options).iter().filter(|p| p.seconds <= first_s) {
        for d in &of_decode {
            for x in 1..=CHIPS / p.chips {
                for y in 1..=CHIPS / d.chips {
                    if x * p.chips + y * d.chips <= CHIPS && d.seconds <= next_s {
                        let prefilled = x as f64 * p.batch / p.seconds;
                        let decoded = y as f64 * d.batch / d.seconds / TOKENS as f64;
                        most.apart = most.apart.max(prefilled.min(decoded));
                    }
                }
            }
            // A replica in turn: one prefill, then as many decode steps as its prompts need.
            let steps = TOKENS as f64 * p.batch / d.batch;
            let turn_s = p.seconds + steps * d.seconds;
            let fits = || {
                let memory = options.memory.unwrap_or(f64::INFINITY);
                held(p, d) <= memory && held(d, p) <= memory
            };
            if p.chips == d.chips && turn_s / steps <= next_s {
                let rate = (CHIPS / d.chips) as f64 * p.batch / turn_s;
                most.unlimited = most.unlimited.max(rate);
                most.together = most.together.max(if fits() { rate } else { 0.0 });
            }
        }
    }
    most
}

#[test]
fn the_best_deployment_is_that_of_enumeration() {
    let (free, options) = (f64::INFINITY, Options::default());
    let seconds = |source: &str, batch: u64| {
        1.001 * replica(source, 4, batch, &options).expect("it has a plan").seconds
    };
    let (first_s, next_s) = (seconds(PREFILL, 1), seconds(DECODE, 16));
    for (first, next) in [(free, free), (first_s, free), (free, next_s), (first_s, next_s)] {
        let limit = |of: f64| of.is_finite().then_some(of);
        let served = served(limit(first), limit(next)).unwrap_or_else(|no| panic!("{no}"));
        let best = &served.deployments[0];
        let most = by_enumeration(DECODE, first, next, &options);
        let other = most.apart.max(most.together);
        assert!((best.requests_per_s - other).abs() <= 1e-6 * other, "{best:?} {other}");
        assert!(served.bound_per_s >= best.requests_per_s * (1.0 - 1e-9));
        for of in &served.deployments {
            assert!(of.chips <= CHIPS && of.first_s <= first && of.next_s <= next, "{of:?}");
        }
    }
}

/// Where the weights are sharded otherwise, or sequences wait with their caches, both phases need
/// more memory than each alone.
#[test]
fn both_phases_have_to_fit_together() {
    let mut refused = 0;
    for memory in [20e6, 60e6, 100e6, 360e6] {
        let options = Options { memory: Some(memory), ..Options::default() };
        let served = served_within(CACHED, [None, None], &options);
        let served = served.unwrap_or_else(|no| panic!("{no}"));
        let most = by_enumeration(CACHED, f64::INFINITY, f64::INFINITY, &options);
        refused += usize::from(most.together < most.unlimited * (1.0 - 1e-6));
        for (kind, other) in [(Kind::Apart, most.apart), (Kind::Together, most.together)] {
            let best = served.deployments.iter().find(|of| of.kind == kind);
            let rate = best.map_or(0.0, |best| best.requests_per_s);
            assert!((rate - other).abs() <= 1e-6 * other, "{memory} {kind:?}: {rate} {other}");
        }
        let highest = served.deployments.iter().map(|of| of.peak_bytes).fold(0.0, f64::max);
        assert!(highest <= memory, "{highest} of {memory}");
    }
    assert!(refused > 0, "the limit matters nowhere");
}

#[test]
fn both_kinds_are_compared_and_printed() {
    let served = served(None, None).unwrap_or_else(|no| panic!("{no}"));
    let has = |kind: Kind| served.deployments.iter().any(|of| of.kind == kind);
    assert!(has(Kind::Apart) && has(Kind::Together));
    for format in SERVING_FORMATS {
        let text = (format.write)(&served).expect("it is written");
        assert!(text.contains("together"), "{}: {text}", format.name);
    }
}

#[test]
fn limits_that_nothing_meets_are_an_error() {
    let limits =
        [(Some(1e-9), None, "`prefill`", "--ttft"), (None, Some(1e-9), "`decode`", "--tpot")];
    for (first_s, next_s, phase, option) in limits {
        let Err(Refused::Options(text)) = served(first_s, next_s) else {
            panic!("nothing is so fast")
        };
        assert!(text.starts_with(phase) && text.contains("at most 1 ns"), "{text}");
        assert!(text.contains(option) && !text.contains("--latency"), "{text}");
    }
}

#[test]
fn tokens_of_a_deployment_have_the_price_of_all_chips() {
    let priced = Options { price: Some(2.0), ..Options::default() };
    let served = served_within(DECODE, [None, None], &priced).unwrap_or_else(|no| panic!("{no}"));
    for of in &served.deployments {
        let expected = 2.0 / 3600.0 / of.tokens_per_s_and_chip * 1e6;
        let found = of.price_of_million.expect("a price");
        assert!((found - expected).abs() <= 1e-9 * expected, "{found} {expected}");
    }
    for format in SERVING_FORMATS.iter().filter(|format| format.name != "json") {
        let text = (format.write)(&served).expect("it is written");
        assert!(text.contains("per Mtok") && text.contains("the price of a million"), "{text}");
    }
}

#[test]
fn phases_that_train_are_swapped_or_equal_are_refused() {
    let trained = PREFILL.replace("output y", "param w[D]\nz = y * w\nbackward from z\noutput y");
    let wider = CACHED.replace("F=8192", "F=32768");
    for (prefill, decode, why) in [
        (PREFILL, wider.as_str(), "`prefill` has 33.6 M parameters and `decode` 134 M: "),
        (CACHED, PREFILL, "`prefill` reads caches (`state`), and `decode` none: "),
        (trained.as_str(), CACHED, "`prefill` has gradients, and neither "),
        (CACHED, CACHED, "`prefill` and `decode` are the same program: "),
    ] {
        let serve_of = Serve {
            prefill: ("prefill".to_owned(), prefill.to_owned()),
            decode: ("decode".to_owned(), decode.to_owned()),
            tokens: TOKENS,
            prompts: vec![1],
            sequences: vec![1],
            first_s: None,
            next_s: None,
        };
        let request = Request::of_chips(1);
        let refused = serve(&serve_of, &request, &Options::default(), &|_| ());
        let refused = refused.expect_err("these are no two phases").to_string();
        assert!(refused.starts_with(why), "{refused}");
    }
}

/// A prompt of 256 tokens fills the cache, so that what follows has no place in it.
#[test]
fn requests_that_are_longer_than_the_caches_are_remarked() {
    let served = served_within(CACHED, [None, None], &Options::default()).expect("deployments");
    let words = "have 356 tokens, and the caches of the decode step hold 256";
    assert!(served.remarks.iter().any(|remark| remark.contains(words)), "{:?}", served.remarks);
    let longer = CACHED.replace("S=256", "S=356");
    let served = served_within(&longer, [None, None], &Options::default()).expect("deployments");
    assert_eq!(served.remarks, Vec::<String>::new());
}
