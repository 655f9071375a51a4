//! Loops over the layers of a pipeline: a function of one layer and one microbatch, and the call of
//! `run_stages`, which sends microbatches through the stages.

use indexmap::IndexSet;

use super::super::json::StagesJson;
use super::super::walk::stages::Staged;
use super::super::walk::target::Microbatches;
use super::body::Writer;
use super::layout::{self, tuple};
use super::loops::{Entry, after};
use super::names::identifier;
use super::sizes::block_field;

impl Writer<'_> {
    /// The field of the chunks of a block's layers.
    fn chunks_name(&self, block: usize) -> String {
        format!("n.{}", block_field(self.plan, block, "chunks"))
    }

    /// The number of layers of a device, of the stage that has the most.
    pub(super) fn slots(&mut self, block: usize) -> String {
        self.expressions.helper("layer_slots");
        format!("len(layer_slots({})[0])", self.chunks_name(block))
    }

    pub(super) fn stages_entry(&mut self, block: usize, rows: &IndexSet<String>) -> Entry {
        self.expressions.helper("microbatches");
        self.expressions.helper("run_stages");
        let reverse = self.plan.blocks[block].reverses.is_some();
        let name = self.names.fresh(if reverse { "layer_backward" } else { "layer" });
        let sizes = self.names.fresh("part");
        self.expressions.rows = Some((sizes.clone(), rows.clone()));
        Entry { outside: self.names.clone(), name, sizes, before: String::new() }
    }

    /// `part = n._replace(B=n.B // n.L_microbatches)`: the sizes of a microbatch.
    fn write_sizes(&mut self, name: &str, stages: &StagesJson) {
        let Some((_, rows)) = self.expressions.rows.clone() else { return };
        let count = self.microbatches_name(&stages.batch);
        let sizes: Vec<String> = rows
            .iter()
            .map(|dim| identifier(dim))
            .map(|dim| format!("{dim}=n.{dim} // {count}"))
            .collect();
        self.text += "\n";
        self.line(self.indent, &format!("{name} = n._replace({})", sizes.join(", ")));
    }

    /// The field of the number of microbatches of a batch.
    fn microbatches_name(&self, batch: &str) -> String {
        let plan = self.plan;
        let is_it = |stages: &StagesJson| stages.batch == batch;
        let of = plan.blocks.iter().position(|one| one.pipeline.as_ref().is_some_and(is_it));
        format!("n.{}", block_field(plan, of.unwrap_or(0), "microbatches"))
    }

    /// The microbatches of a value with rows.
    pub(super) fn parts_of(&self, of: &str, rows: &Microbatches<'_>) -> String {
        let call = |of: &str| {
            let count = self.microbatches_name(rows.batch);
            format!("microbatches({of}, {count}, {})", rows.place)
        };
        if !rows.by_layer {
            return call(of);
        }
        let framework = self.expressions.dialect.framework();
        format!("{framework}.vmap(lambda x: {})({of})", call("x"))
    }

    /// The sum over the layers of a stage.
    pub(super) fn sum_of_layers(&mut self, block: usize, all: &str) -> String {
        self.expressions.helper("sum_of_layers");
        let stages = self.plan.blocks[block].pipeline.as_ref();
        let axis = stages.map(|stages| stages.axis.clone()).into_iter().collect::<Vec<_>>();
        let me = self.expressions.dialect.axis_index(&axis);
        format!("sum_of_layers({all}, {}, {me})", self.chunks_name(block))
    }

    /// The rows of all microbatches.
    pub(super) fn joined_rows(&mut self, parts: &str, place: usize) -> String {
        self.expressions.helper("joined");
        format!("joined({parts}, {place})")
    }

    /// The function of a layer, and the call of `run_stages`.
    pub(super) fn staged(&mut self, entry: Entry, stages: &StagesJson, of: &Staged<'_, String>) {
        let (function, sizes) = (entry.name.clone(), entry.sizes.clone());
        let body = self.end_body(entry);
        if body.contains(&format!("{sizes}.")) {
            self.write_sizes(&sizes, stages);
        }
        self.expressions.rows = None;
        self.write_layer(&function, &body, of);
        self.write_call(&function, &stages.axis, of);
    }

    fn write_layer(&mut self, function: &str, body: &str, of: &Staged<'_, String>) {
        let indent = self.indent;
        let lists = [&of.given.layers, &of.given.rows, &of.given.batches];
        let parts: Vec<String> =
            lists.iter().flat_map(|list| list.iter().map(|(_, own)| own.clone())).collect();
        let inside: Vec<String> = of.frame.carried.iter().map(|it| it.inside.clone()).collect();
        self.text += "\n";
        self.line(indent, &format!("def {function}(carried, given_part):"));
        self.text += &layout::unpacked(indent + 4, &inside, "carried");
        if !parts.is_empty() {
            self.text += &layout::unpacked(indent + 4, &parts, "given_part");
        }
        self.text += body;
        let passed: Vec<String> = of.frame.carried.iter().map(|it| it.passed.clone()).collect();
        let kept: Vec<String> = of.frame.kept.iter().map(|(own, _)| own.clone()).collect();
        let summed: Vec<String> = of.sums.iter().map(|sum| sum.own.clone()).collect();
        let made = [passed, kept, summed].map(|list| tuple(&list)).join(", ");
        self.line(indent + 4, &format!("return {made}"));
        self.text += "\n";
    }

    fn write_call(&mut self, function: &str, axis: &str, of: &Staged<'_, String>) {
        let indent = self.indent;
        let all = |list: &[(String, String)]| {
            tuple(&list.iter().map(|(all, _)| all.clone()).collect::<Vec<_>>())
        };
        let given = of.given;
        let arrays = [all(&given.layers), all(&given.rows), all(&given.batches)].join(", ");
        let chunks = self.chunks_name(of.block);
        let reverse = if of.reverse { ", reverse=True" } else { "" };
        let first: Vec<String> = of.frame.carried.iter().map(|it| it.first.clone()).collect();
        let zeros: Vec<String> = of.sums.iter().map(|sum| sum.zeros.clone()).collect();
        let (first, zeros, dialect) = (tuple(&first), tuple(&zeros), self.expressions.dialect);
        let stages = dialect.stages(&mut self.expressions, axis);
        let text = format!(
            "last, kept, sums = run_stages({function}, {stages}, {chunks}, {first}, ({arrays}), \
             {zeros}{reverse})"
        );
        self.line(indent, &text);
        let kept: Vec<String> = of.frame.kept.iter().map(|(_, all)| all.clone()).collect();
        let sums: Vec<String> = of.sums.iter().map(|sum| sum.all.clone()).collect();
        let left = [(after(of.frame), "last"), (kept, "kept"), (sums, "sums")];
        for (names, from) in left {
            if names.iter().any(|name| name != "_") {
                self.text += &layout::unpacked(indent, &names, from);
            }
            names.iter().filter(|name| *name != "_").for_each(|name| self.names.reserve(name));
        }
    }
}
