//! Dimensions by their use in a program: experts, features, sequence, batch.

use index_vec::IndexVec;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{Along, Op, OpKind, Program};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::weights::{uncast, weights};

pub(super) type Dims = IndexSet<DimId, FxBuildHasher>;

/// Dimensions by their use in a program.
pub(super) struct Classes {
    /// Whether a value is computed from parameters only.
    weights: IndexVec<ValueId, bool>,
    /// For each value, the one that it is in another dtype.
    uncast: IndexVec<ValueId, ValueId>,
    /// Weights that are multiplied or looked up.
    pub(super) used: IndexSet<ValueId, FxBuildHasher>,
    pub(super) experts: Dims,
    feature: Dims,
    pub(super) sequence: Dims,
    pub(super) batch: Dims,
}

impl Classes {
    pub(super) fn of(program: &Program) -> Self {
        let mut classes = Self {
            weights: weights(program),
            uncast: uncast(program),
            used: IndexSet::default(),
            experts: Dims::default(),
            feature: Dims::default(),
            sequence: Dims::default(),
            batch: Dims::default(),
        };
        classes.find_weights(program);
        classes.find_sequence(program);
        classes.find_batch(program);
        classes
    }

    pub(super) fn is_weight(&self, value: ValueId) -> bool {
        self.weights[value]
    }

    /// The value that this one is in another dtype; mostly itself.
    pub(super) fn uncast(&self, value: ValueId) -> ValueId {
        self.uncast[value]
    }

    /// The weight and the activation of a product or lookup, if it has one of each.
    pub(super) fn weight_and_activation(&self, op: &Op) -> Option<(ValueId, ValueId)> {
        let [one, other] = [op.operands.first()?.value, op.operands.get(1)?.value];
        let is_lookup = matches!(op.kind, OpKind::Gather { .. });
        match (self.is_weight(one), self.is_weight(other)) {
            (true, false) if is_lookup || op.is_product() => Some((one, other)),
            (false, true) if op.is_product() => Some((other, one)),
            _ => None,
        }
    }

    /// Uses of weights, the experts among their dimensions, and the others.
    fn find_weights(&mut self, program: &Program) {
        let dims = |value: ValueId| &program.values[value].dims;
        let mut summed = Dims::default();
        let mut shared = Dims::default();
        for op in &program.ops {
            if let OpKind::Route(route) = &op.kind {
                self.experts.insert(route.experts);
            }
            let Some((weight, other)) = self.weight_and_activation(op) else { continue };
            self.used.insert(self.uncast(weight));
            self.feature.extend(dims(weight));
            if let OpKind::Einsum { contracted } = &op.kind {
                summed.extend(contracted);
                let both = dims(weight).iter().filter(|dim| dims(other).contains(dim));
                shared.extend(both.filter(|dim| dims(op.result).contains(dim)));
            }
        }
        self.experts.extend(shared.difference(&summed));
        self.feature.retain(|dim| !self.experts.contains(dim));
    }

    fn find_sequence(&mut self, program: &Program) {
        let routed: Dims = program
            .ops
            .iter()
            .filter_map(|op| if let OpKind::Route(route) = &op.kind { Some(route) } else { None })
            .flat_map(|route| [route.tokens, route.capacity])
            .collect();
        let found = program.ops.iter().flat_map(|op| self.positions(program, op));
        self.sequence = found.filter(|dim| !routed.contains(dim) && self.is_free(*dim)).collect();
        let related: Vec<[Vec<DimId>; 2]> = program.ops.iter().flat_map(relations).collect();
        while self.spread(&related) {}
    }

    /// Carries the class `sequence` over to what is related to it; whether that changed anything.
    fn spread(&mut self, related: &[[Vec<DimId>; 2]]) -> bool {
        let known = self.sequence.len();
        for [one, other] in related {
            for (from, to) in [(one, other), (other, one)] {
                if from.iter().all(|dim| self.sequence.contains(dim)) {
                    let new = to.iter().filter(|dim| self.is_free(**dim));
                    self.sequence.extend(new.copied().collect::<Vec<_>>());
                }
            }
        }
        self.sequence.len() > known
    }

    /// Whether a dimension is of activations only.
    fn is_free(&self, dim: DimId) -> bool {
        !self.feature.contains(&dim) && !self.experts.contains(&dim)
    }

    /// The dimensions of an operation that are positions of a sequence, features among them.
    fn positions(&self, program: &Program, op: &Op) -> Vec<DimId> {
        if let OpKind::Along(Along { from, to, .. }) = op.kind {
            return if from == to { vec![from] } else { Vec::new() };
        }
        let [one, other] = &op.operands[..] else { return Vec::new() };
        let (one, other) = (one.value, other.value);
        if !op.is_product() || self.is_weight(one) || self.is_weight(other) {
            return Vec::new();
        }
        let dims = |value: ValueId| &program.values[value].dims;
        let kept = &dims(op.result);
        let (shared, outer): (Vec<DimId>, Vec<DimId>) =
            kept.iter().partition(|dim| dims(one).contains(dim) && dims(other).contains(dim));
        let batched = shared.iter().any(|dim| !self.feature.contains(dim));
        if batched { outer } else { Vec::new() }
    }

    fn find_batch(&mut self, program: &Program) {
        for op in &program.ops {
            let Some((_, activation)) = self.weight_and_activation(op) else { continue };
            let dims = program.values[activation].dims.iter();
            let others = dims.filter(|dim| self.is_free(**dim) && !self.sequence.contains(*dim));
            self.batch.extend(others.copied().collect::<Vec<_>>());
        }
    }
}

/// Groups of dimensions that an operation makes into each other: one side is of a sequence if all
/// of the other side is.
fn relations(op: &Op) -> Vec<[Vec<DimId>; 2]> {
    let OpKind::Rearrange(rearranged) = &op.kind else { return Vec::new() };
    let pair = |from: DimId, to: DimId| [vec![from], vec![to]];
    match rearranged {
        Rearrange::Rename(pairs) => pairs.iter().map(|&(from, to)| pair(from, to)).collect(),
        Rearrange::Slice(window) | Rearrange::Pad(window) => vec![pair(window.from, window.to)],
        Rearrange::Windows(windows) | Rearrange::Overlap(windows) => {
            vec![pair(windows.whole, windows.places)]
        }
        Rearrange::Concat { from, to } => from.iter().map(|&part| pair(part, *to)).collect(),
        Rearrange::Reshape(groups) => {
            groups.iter().map(|group| [group.from.clone(), group.to.clone()]).collect()
        }
        Rearrange::Chunk { from, to: Some(to), .. } | Rearrange::Stack { from: Some(from), to } => {
            vec![pair(*from, *to)]
        }
        Rearrange::Chunk { .. }
        | Rearrange::Stack { .. }
        | Rearrange::Roll(_)
        | Rearrange::Part { .. }
        | Rearrange::Join { .. } => Vec::new(),
    }
}
