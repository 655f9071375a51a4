//! Sites: trees of sums and products whose inner values nothing else reads.

use index_vec::IndexVec;
use rustc_hash::FxHashSet;
use shardwise_ir::Role;
use shardwise_ir::functions::Arithmetic;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{MapForm, Op, OpKind, Operand, Program};

use super::term::Term;

/// The most operands of a site; a longer chain is several sites.
const MOST_OPERANDS: usize = 8;

/// A tree of sums and products.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its operations, in program order; the last one has its result.
    pub(super) ops: Vec<OpId>,
    /// What it reads.
    pub(super) operands: Vec<Operand>,
    /// The dimensions of each operand.
    pub(super) dims: Vec<Vec<DimId>>,
    /// What it computes.
    pub(super) term: Term,
    /// Which operands are made of parameters alone.
    weights: Vec<bool>,
    /// Whether the author named a value inside.
    is_named: bool,
    /// Whether gradients of parameters have another dtype than its values, which those of several
    /// parameters together have not.
    has_own_gradients: bool,
}

impl Site {
    /// The name of its result.
    pub fn result(&self, program: &Program) -> String {
        self.ops
            .last()
            .map_or(String::new(), |&op| program.values[program.ops[op].result].name.clone())
    }

    /// The names of what it reads.
    pub(super) fn operand_names(&self, program: &Program) -> Vec<String> {
        self.operands.iter().map(|of| program.values[of.value].name.clone()).collect()
    }

    /// The values that it computes, and those that it reads.
    pub fn values(&self, program: &Program) -> [Vec<ValueId>; 2] {
        let results = self.ops.iter().map(|&op| program.ops[op].result).collect();
        [results, self.operands.iter().map(|operand| operand.value).collect()]
    }

    /// Whether a term may be computed instead: one with no more outer products, which no matrix
    /// unit computes and no chip holds; without products of weights, where the author named what is
    /// between them, and without sums of weights either, where the gradient of each has a dtype of
    /// its own.
    pub(super) fn allows(&self, term: &Term) -> bool {
        let outer = |term: &Term| {
            let parts = term.all().into_iter();
            parts.filter(|part| part.is_outer_product(&self.dims)).count()
        };
        if outer(term) > outer(&self.term) {
            return false;
        }
        let is_of_weights = |part: &&Term| {
            let is_combined = match part {
                Term::Operand(_) => false,
                Term::Product { .. } => true,
                Term::Sum { .. } => self.has_own_gradients,
            };
            is_combined && part.operands().iter().all(|&number| self.weights[number])
        };
        let inner = |term: &Term| term.all().into_iter().filter(is_of_weights).count();
        !(self.is_named || self.has_own_gradients) || inner(term) <= inner(&self.term)
    }
}

/// All sites with at least three operands, in program order.
pub(super) fn find(program: &Program) -> Vec<Site> {
    let finder = Finder::new(program);
    let mut taken: FxHashSet<OpId> = FxHashSet::default();
    let mut sites = Vec::new();
    for id in program.ops.indices().rev() {
        if taken.contains(&id) || form(&program.ops[id]).is_none() {
            continue;
        }
        let site = finder.site(id);
        taken.extend(&site.ops);
        if site.ops.len() > 1 {
            sites.push(site);
        }
    }
    sites.reverse();
    sites
}

/// What an operation may be part of.
#[derive(Clone, PartialEq)]
enum Form {
    Product(Vec<DimId>),
    Sum { minus: bool },
}

fn form(op: &Op) -> Option<Form> {
    match &op.kind {
        OpKind::Einsum { contracted } => Some(Form::Product(contracted.clone())),
        OpKind::Map(function) => match function.form {
            MapForm::Infix(Arithmetic::Add) => Some(Form::Sum { minus: false }),
            MapForm::Infix(Arithmetic::Sub) => Some(Form::Sum { minus: true }),
            _ => None,
        },
        _ => None,
    }
}

struct Finder<'p> {
    program: &'p Program,
    /// The operation that defines each value.
    defined: IndexVec<ValueId, Option<OpId>>,
    /// Values that may not vanish: read several times, or by something else than an operation.
    kept: IndexVec<ValueId, bool>,
    /// Values made of parameters alone.
    weights: IndexVec<ValueId, bool>,
}

impl<'p> Finder<'p> {
    fn new(program: &'p Program) -> Self {
        let mut defined: IndexVec<ValueId, Option<OpId>> =
            program.values.iter().map(|_| None).collect();
        let mut weights: IndexVec<ValueId, bool> =
            program.values.iter().map(|value| value.role == Some(Role::Param)).collect();
        let mut uses: IndexVec<ValueId, usize> = program.values.iter().map(|_| 0).collect();
        for (id, op) in program.ops.iter_enumerated() {
            op.operands.iter().for_each(|operand| uses[operand.value] += 1);
            defined[op.result] = Some(id);
            weights[op.result] |=
                !op.operands.is_empty() && op.operands.iter().all(|of| weights[of.value]);
        }
        let mut kept: IndexVec<ValueId, bool> = uses.iter().map(|&uses| uses != 1).collect();
        program.named_elsewhere().into_iter().for_each(|value| kept[value] = true);
        Self { program, defined, kept, weights }
    }

    /// The site that ends with an operation.
    fn site(&self, root: OpId) -> Site {
        let mut ops = vec![root];
        let mut count = self.program.ops[root].operands.len();
        let mut next = 0;
        while next < ops.len() && count < MOST_OPERANDS {
            for operand in &self.program.ops[ops[next]].operands {
                if let Some(inner) = self.inner(root, operand).filter(|_| count < MOST_OPERANDS) {
                    ops.push(inner);
                    count += self.program.ops[inner].operands.len() - 1;
                }
            }
            next += 1;
        }
        ops.sort_unstable();
        let mut operands = Vec::new();
        let term = self.term(root, &ops, &mut operands);
        let value = |of: &Operand| &self.program.values[of.value];
        let inner = ops.iter().filter(|&&op| op != root);
        let mut inner = inner.map(|&op| &self.program.values[self.program.ops[op].result]);
        let is_named = inner.any(|value| !value.is_part());
        let gradients = self.program.backward.as_ref().and_then(|of| of.gradients);
        let result = &self.program.values[self.program.ops[root].result];
        Site {
            dims: operands.iter().map(|of| sorted(&value(of).dims)).collect(),
            weights: operands.iter().map(|of| self.weights[of.value]).collect(),
            ops,
            operands,
            term,
            is_named,
            has_own_gradients: gradients.is_some_and(|dtype| dtype != result.dtype),
        }
    }

    /// The operation of an operand that may vanish in the term that `root` ends.
    fn inner(&self, root: OpId, operand: &Operand) -> Option<OpId> {
        let program = self.program;
        let id = self.defined[operand.value].filter(|_| !self.kept[operand.value])?;
        let (root, op) = (&program.ops[root], &program.ops[id]);
        let (result, value) = (&program.values[root.result], &program.values[op.result]);
        let is_free = operand.pin.is_none()
            && op.result_pin.is_none()
            && value.declared_sharding.is_none()
            && !op.is_kept;
        let dtypes =
            op.operands.iter().chain(&root.operands).map(|of| program.values[of.value].dtype);
        let is_alike = op.repeat == root.repeat
            && op.phase == root.phase
            && value.dtype.is_float()
            && dtypes.chain([result.dtype]).all(|dtype| dtype == value.dtype);
        (is_free && is_alike && form(op).is_some()).then_some(id)
    }

    /// The term of an operation, over operands that are numbered as they are met.
    fn term(&self, id: OpId, ops: &[OpId], operands: &mut Vec<Operand>) -> Term {
        let op = &self.program.ops[id];
        let mut part = |operand: &Operand| {
            let inner = self.defined[operand.value].filter(|inner| ops.contains(inner));
            if let Some(inner) = inner.filter(|_| !self.kept[operand.value]) {
                return self.term(inner, ops, operands);
            }
            let same = |other: &Operand| other.value == operand.value && other.pin == operand.pin;
            Term::Operand(operands.iter().position(same).unwrap_or_else(|| {
                operands.push(operand.clone());
                operands.len() - 1
            }))
        };
        let parts = [part(&op.operands[0]), part(&op.operands[1])];
        match form(op) {
            Some(Form::Sum { minus }) => Term::sum(parts, minus),
            Some(Form::Product(summed)) => Term::as_written(parts, sorted(&summed)),
            None => unreachable!("a site has sums and products only"),
        }
    }
}

fn sorted(dims: &[DimId]) -> Vec<DimId> {
    let mut dims = dims.to_vec();
    dims.sort_unstable();
    dims
}
