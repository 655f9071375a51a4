//! The MLP of the chapter on training: the ways to shard it, and the quantities that its tests
//! derive from the costs of a plan.

use shardwise::cost::Cost;
use shardwise::sweep::{Grid, Outcome, Source, sweep};
use shardwise::{Options, Planned, Strategy};
use shardwise_tests::planning::textbook;

pub(super) const B: f64 = 65536.0;
pub(super) const D: f64 = 8192.0;
pub(super) const F: f64 = 32768.0;
/// v5p: peak FLOP/s, and one axis both ways.
pub(super) const C: f64 = 4.59e14;
pub(super) const W: f64 = 1.8e11;

pub(super) const FORWARD: &str = "Tmp = In *D Win\nOut = Tmp *F Wout\n";
pub(super) const BACKWARD: &str =
    "dWout = Tmp *B dOut\ndTmp = dOut *D Wout\ndWin = In *B dTmp\ndIn = dTmp *F Win\n";

/// How the MLP is sharded: its axes, and the brackets of activations, of what stands between the
/// products, and of both weights.
pub(super) struct Scheme {
    pub(super) mesh: &'static str,
    pub(super) outer: &'static str,
    pub(super) inner: &'static str,
    pub(super) win: &'static str,
    pub(super) wout: &'static str,
}

pub(super) const DP: Scheme =
    Scheme { mesh: "X=16", outer: "[B_X, D]", inner: "[B_X, F]", win: "[D, F]", wout: "[F, D]" };
pub(super) const FSDP: Scheme = Scheme { win: "[D_X, F]", wout: "[F, D_X]", ..DP };
pub(super) const TP: Scheme =
    Scheme { mesh: "Y=8", outer: "[B, D_Y]", inner: "[B, F_Y]", win: "[D, F_Y]", wout: "[F_Y, D]" };
pub(super) const MIXED: Scheme = Scheme {
    mesh: "X=16 over 2, Y=4",
    outer: "[B_X, D_Y]",
    inner: "[B_X, F_Y]",
    win: "[D_X, F_Y]",
    wout: "[F_Y, D_X]",
};

/// Which part of a step is written out.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    Forward,
    Backward,
    Both,
}

impl Scheme {
    pub(super) fn on(&self, mesh: &'static str) -> Self {
        Self { mesh, ..*self }
    }

    pub(super) fn source(&self, part: Part, hardware: &str, dims: &str) -> String {
        let Scheme { mesh, outer, inner, win, wout } = self;
        let head =
            format!("hardware {hardware}\nmesh {mesh}\ndim {dims}\nparam Win{win}, Wout{wout}\n");
        let gradients = format!("output dWin{win}, dWout{wout}, dIn{outer}\n");
        match part {
            Part::Forward => format!("{head}input In{outer}\n{FORWARD}output Out{outer}\n"),
            Part::Backward => {
                format!("{head}input In{outer}, Tmp{inner}, dOut{outer}\n{BACKWARD}{gradients}")
            }
            Part::Both => format!(
                "{head}input In{outer}, dOut{outer}\n{FORWARD}{BACKWARD}output Out{outer}\n\
                    {gradients}"
            ),
        }
    }

    pub(super) fn plan(&self, part: Part) -> Planned {
        textbook(&self.source(part, "tpu-v5p", "B=65536, D=8192, F=32768"))
    }

    pub(super) fn cost(&self, part: Part) -> Cost {
        self.plan(part).cost()
    }
}

/// Bytes of all collectives over `axis`, an AllReduce counted twice.
pub(super) fn moved(cost: &Cost, axis: &str) -> f64 {
    let times = |text: &str| if text.contains("AllReduce") { 2.0 } else { 1.0 };
    cost.statements
        .iter()
        .filter(|statement| statement.bound == axis)
        .map(|statement| times(&statement.text) * statement.bytes)
        .sum()
}

pub(super) fn busy(cost: &Cost, axis: &str) -> f64 {
    cost.axes.iter().find(|busy| busy.axis == axis).map_or(0.0, |busy| busy.busy_s)
}

/// The one size of B at which the verdict turns to compute, in all and for each device.
pub(super) fn crossover(cost: &Cost) -> (f64, f64) {
    let threshold =
        cost.thresholds.iter().find(|threshold| threshold.dim == "B").expect("no parameter has B");
    let [crossover] = threshold.crossovers[..] else { panic!("{:?}", threshold.crossovers) };
    assert_eq!(crossover.above, "compute");
    (crossover.size, crossover.per_device)
}

/// Tokens a chip at which FSDP's forward pass turns compute-bound.
pub(super) fn fsdp_crossover(mesh: &'static str, hardware: &str) -> f64 {
    crossover(
        &textbook(&FSDP.on(mesh).source(Part::Forward, hardware, "B=65536, D=8192, F=32768"))
            .cost(),
    )
    .1
}

/// The mix on one mesh, forward.
pub(super) fn mixed(mesh: &'static str, dims: &str) -> Cost {
    textbook(&MIXED.on(mesh).source(Part::Forward, "tpu-v5p", dims)).cost()
}

/// Where the times of both axes would meet.
pub(super) fn optimum(cost: &Cost, x: f64) -> f64 {
    x * (busy(cost, "Y") / busy(cost, "X")).sqrt()
}

/// Tokens a device at which the best split turns compute-bound. Compute over the weights' time
/// grows with B and falls with X, compute over the activations' time is free of B and grows with X:
/// at the best split both are the root of their product, which grows with B.
pub(super) fn best_crossover(cost: &Cost) -> f64 {
    let compute = cost.verdict.compute_s;
    cost.thresholds[0].per_device / ((compute / busy(cost, "X")) * (compute / busy(cost, "Y")))
}

/// The split with the least busy links among the powers of two.
pub(super) fn best_split(batch: u64, chips: u64, source: String) -> Outcome {
    let grid =
        Grid::parse(&[format!("X*Y={chips}")], &[format!("B={batch}")], &[]).expect("a grid");
    let source = Source { path: "fact".to_owned(), name: "fact".to_owned(), text: source };
    let options = Options { strategy: Strategy::Textbook, ..Options::default() };
    let swept = sweep(&[source], &grid, &options, &|_, _| ())
        .unwrap_or_else(|refused| panic!("{refused:?}"));
    let plans = swept.points.into_iter().filter_map(|point| point.plan);
    plans.min_by(|a, b| a.cost.links_s.total_cmp(&b.cost.links_s)).expect("a feasible split")
}

pub(super) fn rings(dims: &str) -> String {
    MIXED.on("X=16 over 2 ring, Y=4 ring").source(Part::Forward, "tpu-v5p", dims)
}

pub(super) fn split(outcome: &Outcome) -> Vec<f64> {
    outcome.axes.iter().map(|axis| axis.size as f64).collect()
}
