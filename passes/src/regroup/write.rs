//! Writes a term as the statements of its site.

use index_vec::IndexVec;
use rustc_hash::FxHashMap;
use shardwise_ir::functions::Arithmetic;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{MapFn, MapForm, Op, OpKind, Operand, Program, Share, Value};
use shardwise_ir::shape::infer_shape;
use shardwise_ir::sharding::Pin;
use shardwise_ir::{renumber, sparse};

use super::site::Site;
use super::term::Term;

/// Replaces the operations of sites by those of terms.
pub(super) fn write(program: &mut Program, chosen: &[(&Site, &Term)]) {
    let mut written: FxHashMap<OpId, Vec<Op>> = FxHashMap::default();
    for &(site, term) in chosen {
        let Some((&root, inner)) = site.ops.split_last() else { continue };
        written.extend(inner.iter().map(|&op| (op, Vec::new())));
        written.insert(root, statements(program, site, (root, term)));
    }
    let gone: Vec<ValueId> = written
        .iter()
        .filter(|(_, ops)| ops.is_empty())
        .map(|(&op, _)| program.ops[op].result)
        .collect();
    let mut ops: IndexVec<OpId, Op> = IndexVec::with_capacity(program.ops.len());
    let mut end = None;
    for (id, op) in std::mem::take(&mut program.ops).into_iter_enumerated() {
        if program.backward.as_ref().is_some_and(|backward| backward.at == id) {
            end = Some(ops.next_idx());
        }
        match written.remove(&id) {
            Some(instead) => ops.extend(instead),
            None => {
                ops.push(op);
            }
        }
    }
    let end = end.unwrap_or(ops.next_idx());
    program.ops = ops;
    program.backward.iter_mut().for_each(|backward| backward.at = end);
    renumber::without(program, &gone);
    sparse::mark(program);
}

/// The statements of a term, the last with the result of the site.
fn statements(program: &mut Program, site: &Site, (root, term): (OpId, &Term)) -> Vec<Op> {
    let mut writer = Writer { root: program.ops[root].clone(), program, site, ops: Vec::new() };
    writer.result(term);
    writer.ops
}

struct Writer<'p> {
    program: &'p mut Program,
    site: &'p Site,
    root: Op,
    ops: Vec<Op>,
}

impl Writer<'_> {
    /// The last operation, whose result is that of the site.
    fn result(&mut self, term: &Term) {
        let (kind, operands) = self.operation(term);
        let dims = self.shape(&kind, &operands);
        let value = &mut self.program.values[self.root.result];
        // An order that no longer follows from the operands has to be printed.
        if value.dims != dims && self.root.result_pin.is_none() {
            self.root.result_pin = Some(Pin::open(dims.len()));
            value.declared_sharding.clone_from(&self.root.result_pin);
        }
        let root = self.root.clone();
        self.ops.push(Op { kind, operands, share: Share::WHOLE, ..root });
    }

    fn operation(&mut self, term: &Term) -> (OpKind, Vec<Operand>) {
        let operands = term.parts().into_iter().flatten().map(|part| self.operand(part)).collect();
        let kind = match term {
            Term::Product { summed, .. } => OpKind::Einsum { contracted: summed.clone() },
            Term::Sum { minus: true, .. } => infix(Arithmetic::Sub),
            Term::Sum { .. } | Term::Operand(_) => infix(Arithmetic::Add),
        };
        (kind, operands)
    }

    /// A part as an operand, computed before.
    fn operand(&mut self, part: &Term) -> Operand {
        if let Term::Operand(number) = part {
            return self.site.operands[*number].clone();
        }
        let (kind, operands) = self.operation(part);
        let dims = self.shape(&kind, &operands);
        let root = &self.program.values[self.root.result];
        let value = Value {
            repeat: root.repeat,
            ..Value::result(self.fresh(&root.name), dims, root.dtype, root.span)
        };
        let result = self.program.values.push(value);
        let (root, span) = (self.root.clone(), self.root.span);
        let (result_pin, share) = (None, Share::WHOLE);
        self.ops.push(Op { kind, operands, result, result_pin, share, is_kept: false, ..root });
        Operand { value: result, pin: None, span }
    }

    fn shape(&self, kind: &OpKind, operands: &[Operand]) -> Vec<DimId> {
        let dims: Vec<&[_]> =
            operands.iter().map(|of| &self.program.values[of.value].dims[..]).collect();
        infer_shape(kind, &dims)
    }

    /// `Out.1`, or the next number that is free.
    fn fresh(&self, base: &str) -> String {
        let is_taken = |name: &str| self.program.values.iter().any(|value| value.name == name);
        let names = (1..).map(|number| format!("{base}.{number}"));
        names.into_iter().find(|name| !is_taken(name)).unwrap_or_default()
    }
}

fn infix(how: Arithmetic) -> OpKind {
    OpKind::Map(MapFn::new(MapForm::Infix(how)))
}
