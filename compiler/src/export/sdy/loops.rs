//! Loops as `stablehlo.while`: a counter, what is passed on, and the arrays of all iterations.

use indexmap::IndexSet;

use super::super::walk::loops::Iterated;
use super::array::Array;
use super::writer::Writer;

/// The beginning of a loop.
#[derive(Default)]
pub(super) struct Entry {
    /// The text before.
    pub(super) before: String,
    /// Of a pipeline, the dimensions that are shorter in a microbatch, and by what.
    pub(super) rows: Option<(IndexSet<String>, u64)>,
}

/// A value that a loop passes from one iteration to the next.
pub(super) struct Passed {
    pub(super) first: Array,
    pub(super) inside: Array,
    /// The name of the result.
    pub(super) after: String,
}

impl Writer<'_> {
    /// Begins an iteration; that of a layer of a pipeline is inside of two loops.
    pub(super) fn begin_iteration(&mut self, entry: &mut Entry) {
        entry.before = std::mem::take(&mut self.builder.text);
        self.builder.indent += if entry.rows.is_some() { 4 } else { 2 };
        self.rows = entry.rows.take().or_else(|| self.rows.take());
    }

    pub(super) fn iterated(&mut self, entry: Entry, of: &Iterated<'_, Array>) {
        let count = self.count(of.count);
        let b = &mut self.builder;
        let counter = b.declared("i", &[], shardwise_ir::dtype::DType::Int32);
        let index =
            if of.reverse { b.declared("layer", &[], counter.dtype) } else { counter.clone() };
        let mut passed = Vec::new();
        let mut yielded: Vec<Array> = Vec::new();
        for carried in &of.frame.carried {
            let after = carried.after.as_ref().map_or_else(|| b.fresh(), |it| it.name.clone());
            let (first, inside) = (carried.first.clone(), carried.inside.clone());
            passed.push(Passed { first, inside, after });
            yielded.push(carried.passed.clone());
        }
        for (own, all) in &of.frame.kept {
            let inside = Array { name: b.fresh(), ..all.clone() };
            let part = [&[1], own.shape.as_slice()].concat();
            let part = b.reshape(own, &part);
            yielded.push(b.updated(&inside, &part, std::slice::from_ref(&index)));
            // Made before the loop, below.
            passed.push(Passed { first: all.clone(), inside, after: all.name.clone() });
        }
        let body = std::mem::replace(&mut b.text, entry.before);
        b.indent -= 2;
        let kept = passed.len() - of.frame.kept.len();
        for one in &mut passed[kept..] {
            one.first = b.like(&one.first, 0.0);
        }
        self.open(&counter, &passed, count);
        let b = &mut self.builder;
        if of.reverse {
            let last = b.index(count - 1);
            let own = b.binary("subtract", &last, &counter);
            b.alias(&own, &index.name);
        }
        for (all, own) in &of.frame.read {
            let part = b.element(all, &index);
            b.alias(&part, &own.name);
        }
        b.text += &body;
        self.close(&counter, &yielded);
    }

    /// The head of a loop, up to the first line of its body.
    pub(super) fn open(&mut self, counter: &Array, passed: &[Passed], count: u64) {
        let b = &mut self.builder;
        let zero = b.index(0);
        let mut results = vec![b.fresh()];
        let mut inside = vec![format!("{} = {}", counter.name, zero.name)];
        let mut types = vec![counter.ty()];
        for one in passed {
            results.push(one.after.clone());
            inside.push(format!("{} = {}", one.inside.name, one.first.name));
            types.push(one.first.ty());
        }
        let (results, inside) = (results.join(", "), inside.join(", "));
        b.line(&format!("{results} = stablehlo.while({inside}) : {}", types.join(", ")));
        b.line("cond {");
        b.indent += 2;
        let end = b.index(count);
        let is_inside = b.compare("LT", counter, &end);
        b.line(&format!("stablehlo.return {} : tensor<i1>", is_inside.name));
        b.indent -= 2;
        b.line("} do {");
        b.indent += 2;
    }

    /// The end of a loop.
    pub(super) fn close(&mut self, counter: &Array, yielded: &[Array]) {
        let b = &mut self.builder;
        let next = b.with("add", counter, 1.0);
        let all: Vec<&Array> = std::iter::once(&next).chain(yielded).collect();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        let types: Vec<String> = all.iter().map(|one| one.ty()).collect();
        b.line(&format!("stablehlo.return {} : {}", names.join(", "), types.join(", ")));
        b.indent -= 2;
        b.line("}");
    }
}
