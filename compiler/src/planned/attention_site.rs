//! Finds attention in a program.

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{MapForm, Op, OpKind, Program};
use shardwise_ir::rearrange::Composite;

/// A product of queries and keys whose softmax is multiplied with values. Values are known by name:
/// a plan has other numbers for them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Site {
    pub(crate) scores: String,
    pub(crate) query: String,
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) result: String,
    pub(crate) query_dim: DimId,
    pub(crate) key_dim: DimId,
    /// The dimension along which queries and keys are multiplied.
    pub(crate) contracted: Vec<DimId>,
}

/// Every attention of a program over more than one query.
pub(crate) fn sites(program: &Analyzed) -> Vec<Site> {
    program.ops.iter_enumerated().filter_map(|(id, op)| site(program, id, op)).collect()
}

fn site(program: &Analyzed, id: OpId, op: &Op) -> Option<Site> {
    let OpKind::Composite { function: Composite::Softmax, dims } = &op.kind else { return None };
    let &[key_dim] = &dims[..] else { return None };
    let scores = scores_of(program, op.operands[0].value)?;
    let OpKind::Einsum { contracted } = &scores.kind else { return None };
    let has = |value: ValueId, dim: DimId| program.values[value].dims.contains(&dim);
    let [a, b] = &scores.operands[..] else { return None };
    let (query, key) = match (has(a.value, key_dim), has(b.value, key_dim)) {
        (false, true) => (a.value, b.value),
        (true, false) => (b.value, a.value),
        _ => return None,
    };
    let query_dim = longest(program, query, key, contracted)?;
    let (result, value) = multiplied(program, program.ops[id].result, key_dim)?;
    let name = |value: ValueId| program.values[value].name.clone();
    Some(Site {
        scores: name(scores.result),
        query: name(query),
        key: name(key),
        value: name(value),
        result: name(result),
        query_dim,
        key_dim,
        contracted: contracted.clone(),
    })
}

/// The product that produces `value`, before scaling and masking.
fn scores_of(program: &Analyzed, value: ValueId) -> Option<&Op> {
    let op = &program.ops[program.dataflow().definition(value)?];
    match (&op.kind, &op.operands[..]) {
        (OpKind::Einsum { contracted }, _) if !contracted.is_empty() => Some(op),
        (OpKind::Map(function), [operand])
            if !matches!(function.form, MapForm::LoopCarried | MapForm::Last | MapForm::Total) =>
        {
            scores_of(program, operand.value)
        }
        _ => None,
    }
}

/// The largest dimension of the queries that keys do not have.
fn longest(program: &Program, query: ValueId, key: ValueId, contracted: &[DimId]) -> Option<DimId> {
    let own = program.values[query].dims.iter().copied();
    let own =
        own.filter(|dim| !program.values[key].dims.contains(dim) && !contracted.contains(dim));
    own.filter(|&dim| program.dims[dim].size > 1).max_by_key(|&dim| program.dims[dim].size)
}

/// The product that multiplies `weights` (possibly cast) with values and sums along `key_dim`, and
/// the values.
fn multiplied(program: &Analyzed, weights: ValueId, key_dim: DimId) -> Option<(ValueId, ValueId)> {
    let (reader, _) = program.dataflow().uses_of(weights).next()?;
    let op = &program.ops[reader];
    match (&op.kind, &op.operands[..]) {
        (OpKind::Einsum { contracted }, [a, b]) if *contracted == [key_dim] => {
            Some((op.result, if a.value == weights { b.value } else { a.value }))
        }
        (OpKind::Map(_), [_]) => multiplied(program, op.result, key_dim),
        _ => None,
    }
}
