//! Every reshard between two shardings of a value, on meshes of three axes: the bytes that its
//! cheapest plan communicates beside the fewest that any plan could ([`bound`]).
//!
//! On rings the cheapest plan is not always the one with the fewest bytes; on a switch it is, but
//! for latencies, which are too short to count at these sizes. So the meshes are switches.

pub mod bound;

use rayon::prelude::*;
use shardwise::{Options, Refinement};
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Materialization;
use shardwise_ir::print;
use shardwise_passes::{Tables, describe};

use bound::Devices;

/// The sizes of the axes of the meshes.
pub const MESHES: [[u64; 3]; 3] = [[2, 2, 2], [2, 4, 2], [2, 4, 8]];

/// All pairs of shardings of a value with so many dimensions on a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// The sizes of the axes `X`, `Y` and `Z`.
    pub mesh: [u64; 3],
    /// The dimensions of the value.
    pub rank: usize,
    /// Whether a sum is pending before. Else none is, before or after.
    pub pending: bool,
}

/// A pair whose plan communicates more than the bound.
struct Excess {
    moved: f64,
    bound: f64,
    steps: Vec<String>,
}

impl Excess {
    /// The bytes as a multiple of the bound.
    fn ratio(&self) -> f64 {
        self.moved / self.bound
    }
}

/// What was found of pairs.
pub struct Found {
    pairs: Pairs,
    count: usize,
    /// Those with as many bytes as the bound.
    meet: usize,
    /// The bytes of all plans, and the bounds, as parts of a value.
    moved: f64,
    bound: f64,
    worst: Option<Excess>,
}

impl Pairs {
    /// Those of every mesh, of two and three dimensions.
    pub fn all() -> Vec<Self> {
        let ranks = MESHES.into_iter().flat_map(|mesh| [2, 3].map(|rank| (mesh, rank)));
        let pairs = ranks
            .flat_map(|(mesh, rank)| [false, true].map(|pending| Self { mesh, rank, pending }));
        pairs.collect()
    }

    /// The program: a value of as many dimensions, each of which every axis divides.
    fn source(self) -> String {
        let [x, y, z] = self.mesh;
        let (sizes, dims) = match self.rank {
            2 => ("I=65536, J=65536", "I, J"),
            _ => ("I=2048, J=2048, K=2048", "I, J, K"),
        };
        let unreduced = if self.pending { " {U_X}" } else { "" };
        format!(
            "hardware gb200-nvl72\nmesh X={x}, Y={y}, Z={z}\ndim {sizes}\n\
             input A[{dims}]{unreduced}\noutput A[{dims}]\n"
        )
    }

    /// The cheapest plan of every pair beside its bound.
    ///
    /// # Panics
    /// If the program cannot be planned.
    pub fn find(self) -> Found {
        let source = self.source();
        let checked = shardwise::check("pairs", &source, &Options::default());
        let program = checked.program.unwrap_or_else(|| panic!("{}\n{source}", checked.findings));
        let tables = Tables::new(&program, Refinement::Exact);
        let value = ValueId::new(0);
        let devices = Devices { mesh: &program.mesh, rank: self.rank };
        let reshards = tables.of(value);
        let of_source = |from: usize| {
            let before = reshards.space.sharding(from);
            let mut found = Found::new(self);
            if before.unreduced.is_empty() == self.pending {
                return found;
            }
            for to in 0..reshards.space.len() {
                let after = reshards.space.sharding(to);
                let Some(bound) = devices.least(before, after) else { continue };
                let path = reshards.path(from, to);
                let sides = |at: usize| reshards.space.sharding(at);
                let moved =
                    path.iter().map(|hop| devices.moved(&hop.kind, sides(hop.from), sides(hop.to)));
                let moved: f64 = moved.sum();
                let at = |state: usize| Materialization { value, sharding: sides(state).clone() };
                let text = path.iter().map(|hop| {
                    let kind = describe(&hop.kind, sides(hop.from), sides(hop.to));
                    print::collective(&program, &kind, &at(hop.from), &at(hop.to))
                });
                found.add(moved, bound, || text.collect());
            }
            found
        };
        let all: Vec<usize> = (0..reshards.space.len()).collect();
        let each: Vec<Found> = all.into_par_iter().map(of_source).collect();
        each.into_iter().fold(Found::new(self), Found::merge)
    }
}

impl Found {
    fn new(pairs: Pairs) -> Self {
        Self { pairs, count: 0, meet: 0, moved: 0.0, bound: 0.0, worst: None }
    }

    fn add(&mut self, moved: f64, bound: f64, steps: impl FnOnce() -> Vec<String>) {
        assert!(moved >= bound - 1e-9, "{moved} is below the bound, {bound}: {:?}", steps());
        self.count += 1;
        self.moved += moved;
        self.bound += bound;
        if moved <= bound + 1e-9 {
            self.meet += 1;
        } else {
            self.keep_worst(Some(Excess { moved, bound, steps: steps() }));
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.count += other.count;
        self.meet += other.meet;
        self.moved += other.moved;
        self.bound += other.bound;
        self.keep_worst(other.worst);
        self
    }

    /// Keeps the worse of two pairs, the earlier of equals.
    fn keep_worst(&mut self, other: Option<Excess>) {
        let Some(other) = other else { return };
        if self.worst.as_ref().is_none_or(|worst| other.ratio() > worst.ratio() + 1e-9) {
            self.worst = Some(other);
        }
    }

    /// Its row of the table.
    pub fn row(&self) -> String {
        let [x, y, z] = self.pairs.mesh;
        format!(
            "| {x}×{y}×{z} | {} | {} | {} | {} | {:.1}% | {:.1}% | {:.2} |",
            self.pairs.rank,
            if self.pairs.pending { "pending" } else { "reduced" },
            self.count,
            self.meet,
            100.0 * self.meet as f64 / self.count as f64,
            100.0 * (self.moved / self.bound - 1.0),
            self.worst.as_ref().map_or(1.0, Excess::ratio),
        )
    }

    /// The plan of the worst pair.
    fn worst_plan(&self) -> String {
        let Some(worst) = &self.worst else { return String::new() };
        let [x, y, z] = self.pairs.mesh;
        let ratio = worst.ratio();
        format!("\n# {x}×{y}×{z}, {ratio:.2} times the bound\n{}\n", worst.steps.join("\n"))
    }
}

/// The page: a table with a row for each of `found`, and the plans of the worst pairs.
pub fn page(found: &[Found]) -> String {
    let mut text = include_str!("reshards/head.md").to_owned();
    text += "| mesh | dimensions | before | pairs | meet the bound | share | bytes above it \
             | worst |\n| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n";
    for found in found {
        text += &found.row();
        text.push('\n');
    }
    text += "\n```text";
    for found in found {
        text += &found.worst_plan();
    }
    text + "```\n"
}
