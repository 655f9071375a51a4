//! The layers of a pipeline in three parts, before their functions are written.
//!
//! Steps of a pipeline's layers run for each microbatch if they read or make rows of the batch, and
//! once a step otherwise: what gathers weights comes before all microbatches, what reduces their
//! gradients and updates them comes after. A plan has these steps in one block, because its layers
//! mean the same without microbatches. Here the block becomes up to three blocks over the same
//! layers, so that what passes between the parts is found as between any two loops.

use indexmap::{IndexMap, IndexSet};

use super::super::json::{NodeJson, Operation, PlanJson, StepJson, TensorJson};
use super::collectives::is_collective;

/// When a step of a pipeline's layers runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Once, before the first microbatch.
    Before,
    /// For each microbatch.
    Rows,
    /// Once, after the last microbatch.
    After,
}

/// Whether a dimension is the batch, or a product that it is a factor of.
fn holds(plan: &PlanJson, dim: &str, batch: &str) -> bool {
    let factors = plan.dims.iter().find(|other| other.dim == dim).map(|other| &other.factors);
    dim == batch || factors.is_some_and(|all| all.iter().any(|factor| holds(plan, factor, batch)))
}

/// The dimensions that are shorter in a microbatch.
pub(in crate::export) fn rows(plan: &PlanJson, batch: &str) -> IndexSet<String> {
    let dims = plan.dims.iter().map(|dim| dim.dim.clone());
    dims.filter(|dim| holds(plan, dim, batch)).collect()
}

/// Whether a value has rows of a microbatch.
pub(super) fn has_rows(of: &TensorJson, rows: &IndexSet<String>) -> bool {
    of.dims.iter().any(|dim| rows.contains(&dim.dim))
}

/// Whether a step runs for each microbatch because of what it reads or makes.
pub(in crate::export) fn moves_rows(step: &StepJson, rows: &IndexSet<String>) -> bool {
    step.operands.iter().chain([&step.result]).any(|of| has_rows(of, rows))
}

/// Whether a step depends on the places of rows in the batch, or gives them another dimension: what
/// is the same for a microbatch as for the batch does not.
pub(super) fn depends_on_places(step: &StepJson, rows: &IndexSet<String>) -> bool {
    let Some(operation) = &step.operation else { return true };
    let any = |dims: &[&String]| dims.iter().any(|dim| rows.contains(*dim));
    let all = |dims: &[String]| dims.iter().any(|dim| rows.contains(dim));
    match operation {
        Operation::Iota { dim }
        | Operation::Position { dim }
        | Operation::Take { dim }
        | Operation::Put { dim }
        | Operation::Update { dim }
        | Operation::Roll { dim, .. } => any(&[dim]),
        Operation::Mask { query, key, .. } => any(&[query, key]),
        Operation::Window { from, to, .. }
        | Operation::Pad { from, to, .. }
        | Operation::Windows { from, to, .. }
        | Operation::Overlap { from, to, .. }
        | Operation::Along { from, to, .. } => any(&[from, to]),
        Operation::Route { tokens, experts, capacity, .. } => any(&[tokens, experts, capacity]),
        Operation::Concat { from, to } => all(from) || any(&[to]),
        Operation::Rename { pairs } => pairs.iter().any(|(old, new)| any(&[old, new])),
        Operation::Reshape { groups } => groups.iter().any(|(old, new)| all(old) != all(new)),
        Operation::Reduce { function, dims } => {
            all(dims) && !matches!(function.as_str(), "sum" | "mean")
        }
        Operation::Composite { dims, .. } => all(dims),
        _ => false,
    }
}

/// The numbers of the steps of some nodes, in order.
pub(super) fn steps(body: &[NodeJson]) -> Vec<usize> {
    let of = |node: &NodeJson| match node {
        NodeJson::Step(number) => vec![*number],
        NodeJson::Block { body, .. } => steps(body),
    };
    body.iter().flat_map(of).collect()
}

/// The plan with the layers of each pipeline in three blocks, and its steps in that order.
pub(in crate::export) fn split(plan: &PlanJson) -> PlanJson {
    let mut body = Vec::new();
    for node in &plan.body {
        match node {
            NodeJson::Block { block, body: inner } if plan.blocks[*block].pipeline.is_some() => {
                body.extend(parts(plan, *block, inner));
            }
            other => body.push(other.clone()),
        }
    }
    let order = steps(&body);
    let mut next = 0;
    let mut split = plan.clone();
    split.body = renumbered(&body, &mut next);
    split.steps = order.into_iter().map(|number| plan.steps[number].clone()).collect();
    split
}

fn renumbered(body: &[NodeJson], next: &mut usize) -> Vec<NodeJson> {
    let mut one = |node: &NodeJson| match node {
        NodeJson::Step(_) => {
            *next += 1;
            NodeJson::Step(*next - 1)
        }
        NodeJson::Block { block, body } => {
            NodeJson::Block { block: *block, body: renumbered(body, next) }
        }
    };
    body.iter().map(&mut one).collect()
}

fn parts(plan: &PlanJson, block: usize, body: &[NodeJson]) -> Vec<NodeJson> {
    let phases = Phases::of(plan, block, body);
    let part = |phase| phases.only(body, phase);
    let parts = [Phase::Before, Phase::Rows, Phase::After].map(part).into_iter();
    let parts = parts.filter(|body| !body.is_empty());
    parts.map(|body| NodeJson::Block { block, body }).collect()
}

/// When each step of a pipeline's layers runs.
struct Phases<'p> {
    plan: &'p PlanJson,
    of: IndexMap<usize, Phase>,
}

impl<'p> Phases<'p> {
    fn of(plan: &'p PlanJson, block: usize, body: &[NodeJson]) -> Self {
        let batch = plan.blocks[block].pipeline.as_ref().map_or("", |stages| &stages.batch);
        let rows = rows(plan, batch);
        let mut phases = Self { plan, of: IndexMap::new() };
        for number in steps(body) {
            let step = &plan.steps[number];
            let phase = if moves_rows(step, &rows) {
                Phase::Rows
            } else if step.operands.iter().any(|of| phases.is_summed(of)) {
                Phase::After
            } else {
                Phase::Before
            };
            phases.of.insert(number, phase);
        }
        // From the last one on, so that the readers of a step are known before it.
        for number in phases.of.keys().copied().rev().collect::<Vec<_>>() {
            if phases.is_gathered_again(number) {
                phases.of.insert(number, Phase::Rows);
            }
        }
        phases
    }

    /// Whether a value without rows is a sum over all microbatches, or made from one.
    fn is_summed(&self, of: &TensorJson) -> bool {
        let made = self.of.iter().rev().find(|(number, _)| self.plan.steps[**number].result == *of);
        made.is_some_and(|(_, phase)| *phase != Phase::Before)
    }

    /// Whether a weight is gathered for each microbatch: all that read it are in this block and run
    /// for each, and no block keeps it.
    fn is_gathered_again(&self, number: usize) -> bool {
        let plan = self.plan;
        let step = &plan.steps[number];
        let made = &step.result;
        let is_free = matches!(step.operation, Some(Operation::Slice { .. }));
        let is_kept = plan.blocks.iter().any(|block| block.kept_gathered.contains(made));
        let leaves = plan.outputs.iter().any(|output| output.tensor == *made);
        let later = &plan.steps[number + 1..];
        let end = later.iter().position(|other| other.result == *made).unwrap_or(later.len());
        let reads = |place: &usize| later[*place].operands.contains(made);
        let is_for_rows = |place: usize| self.of.get(&(number + 1 + place)) == Some(&Phase::Rows);
        self.of[&number] == Phase::Before
            && is_collective(step)
            && !(is_free || is_kept || leaves)
            && (0..end).filter(reads).all(is_for_rows)
    }

    /// The nodes with the steps of a phase.
    fn only(&self, body: &[NodeJson], phase: Phase) -> Vec<NodeJson> {
        let one = |node: &NodeJson| match node {
            NodeJson::Step(number) => (self.of[number] == phase).then_some(NodeJson::Step(*number)),
            NodeJson::Block { block, body } => {
                let body = self.only(body, phase);
                (!body.is_empty()).then_some(NodeJson::Block { block: *block, body })
            }
        };
        body.iter().filter_map(one).collect()
    }
}
