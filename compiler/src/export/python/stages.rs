//! Loops over the layers of a pipeline: a function of one layer and one microbatch, and the call of
//! `run_stages`, which sends microbatches through the stages.
//!
//! It is written as other loops are, but that a value of a layer is on one stage only, and that a
//! value with rows is there once for each microbatch.

use indexmap::{IndexMap, IndexSet};

use super::super::json::{NodeJson, Operation, StagesJson, StepJson, TensorJson};
use super::body::Writer;
use super::expression::number_of;
use super::flow::{Exit, Key};
use super::layout::{self, tuple};
use super::loops::{Frame, Left};
use super::names::identifier;
use super::{Result, phases, unsupported};

/// What is given to a layer.
#[derive(Default)]
struct Given {
    /// To each layer: the array of all, and the name of one's part.
    layers: Vec<[String; 2]>,
    /// To each layer for each microbatch.
    rows: Vec<[String; 2]>,
    /// To each microbatch.
    batches: Vec<[String; 2]>,
}

/// What is summed up over microbatches: the value of a layer, zeros, and the name of the sums.
type Sums = Vec<[String; 3]>;

/// `((0, 4), (1, 4))`: the stage and the number of layers of each chunk. Where chunks turn around,
/// the last stage has two after each other.
pub(super) fn chunks(stages: &StagesJson) -> String {
    let is_v = stages.schedule.ends_with("-v");
    let last = stages.stage_of_layer.iter().max();
    let runs = stages.stage_of_layer.chunk_by(|a, b| a == b).flat_map(|run| {
        let turns = is_v && run.first() == last && run.len() > 1;
        let first = if turns { run.len() / 2 } else { run.len() };
        let parts = [first, run.len() - first].into_iter().filter(|layers| *layers > 0);
        parts.map(|layers| format!("({}, {layers})", run[0])).collect::<Vec<_>>()
    });
    tuple(&runs.collect::<Vec<_>>())
}

impl<'p> Writer<'p> {
    /// The pipeline that a block's layers are in, where devices differ.
    pub(super) fn stages_of(&self, block: usize) -> Option<&'p StagesJson> {
        let plan = self.plan;
        plan.blocks[block].pipeline.as_ref().filter(|_| !self.expressions.whole)
    }

    /// The pipeline of a loop that runs for each microbatch.
    pub(super) fn microbatched(&self, number: usize, body: &[NodeJson]) -> Option<&'p StagesJson> {
        let stages = self.stages_of(self.flow.loops[number].block)?;
        let rows = phases::rows(self.plan, &stages.batch);
        let moves = |step: usize| phases::moves_rows(&self.plan.steps[step], &rows);
        phases::steps(body).into_iter().any(moves).then_some(stages)
    }

    /// The field of the chunks of a block's layers.
    fn chunks_name(&self, block: usize) -> String {
        format!("n.{}", super::sizes::block_field(self.plan, block, "chunks"))
    }

    /// The number of layers of a device, of the stage that has the most.
    pub(super) fn slots(&mut self, block: usize) -> String {
        self.expressions.helper("layer_slots");
        format!("len(layer_slots({})[0])", self.chunks_name(block))
    }

    /// A loop over the layers of a pipeline.
    pub(super) fn run_stages(
        &mut self,
        number: usize,
        (stages, body): (&'p StagesJson, &[NodeJson]),
        indent: usize,
        loops: &mut usize,
    ) -> Result<()> {
        let block = self.flow.loops[number].block;
        let reverse = self.plan.blocks[block].reverses.is_some();
        self.expressions.helper("microbatches");
        self.expressions.helper("run_stages");
        let function = self.names.fresh(if reverse { "layer_backward" } else { "layer" });
        let sizes = self.names.fresh("part");
        let outside = self.names.clone();
        let rows = phases::rows(self.plan, &stages.batch);
        for step in phases::steps(body) {
            let step = &self.plan.steps[step];
            if phases::depends_on_places(step, &rows) {
                return unsupported(&step.value, "a pipeline in which rows depend on their place");
            }
        }
        self.expressions.rows = Some((sizes.clone(), rows));
        let mut frame = Frame::default();
        let mut inside = IndexMap::new();
        self.carries(number, body, &mut frame, &mut inside)?;
        self.split_first(body, &mut frame)?;
        let given = self.given(number, body, &mut inside)?;
        let before = std::mem::take(&mut self.text);
        self.scopes.push(inside);
        self.nodes(body, indent + 4, loops)?;
        let (sums, left) = self.leave_stages(number, &mut frame)?;
        let text = std::mem::replace(&mut self.text, before);
        self.scopes.pop();
        self.names.leave(outside);
        if text.contains(&format!("{sizes}.")) {
            self.write_sizes(&sizes, stages, indent);
        }
        self.expressions.rows = None;
        let call = Call { number, axis: &stages.axis, function: &function, reverse };
        self.write_layer(&call, &text, (&frame, &given, &sums), indent);
        self.write_left(left, indent);
        Ok(())
    }

    /// `part = n._replace(B=n.B // n.L_microbatches)`: the sizes of a microbatch.
    fn write_sizes(&mut self, name: &str, stages: &StagesJson, indent: usize) {
        let Some((_, rows)) = self.expressions.rows.clone() else { return };
        let count = self.microbatches_name(&stages.batch);
        let sizes: Vec<String> = rows
            .iter()
            .map(|dim| identifier(dim))
            .map(|dim| format!("{dim}=n.{dim} // {count}"))
            .collect();
        self.text += "\n";
        self.line(indent, &format!("{name} = n._replace({})", sizes.join(", ")));
    }

    /// The field of the number of microbatches of a batch.
    fn microbatches_name(&self, batch: &str) -> String {
        let plan = self.plan;
        let is_it = |stages: &StagesJson| stages.batch == batch;
        let of = plan.blocks.iter().position(|one| one.pipeline.as_ref().is_some_and(is_it));
        format!("n.{}", super::sizes::block_field(plan, of.unwrap_or(0), "microbatches"))
    }

    /// The microbatches of a value with rows.
    fn parts_of(&self, variable: &str, of: &TensorJson) -> Result {
        let Some((_, rows)) = &self.expressions.rows else { return Ok(variable.to_owned()) };
        let dim = of.dims.iter().find(|dim| rows.contains(&dim.dim));
        let batch = self.plan.blocks.iter().filter_map(|block| block.pipeline.as_ref());
        let batch = batch.map(|stages| &stages.batch).find(|batch| rows.contains(*batch));
        match (dim, batch) {
            (Some(dim), Some(batch)) if dim.dim == *batch => Ok(format!(
                "microbatches({variable}, {}, {})",
                self.microbatches_name(batch),
                number_of(of, batch)
            )),
            _ => unsupported(&of.value, "a value that a pipeline cannot split into microbatches"),
        }
    }

    /// What enters the first stage is split into microbatches.
    fn split_first(&mut self, body: &[NodeJson], frame: &mut Frame) -> Result<()> {
        let carries: Vec<&StepJson> =
            self.own_steps(body).filter(|step| step.operation == Some(Operation::Carry)).collect();
        for (step, carried) in carries.into_iter().zip(&mut frame.carried) {
            carried[0] = self.parts_of(&carried[0], &step.operands[0])?;
        }
        Ok(())
    }

    fn has_rows(&self, of: &TensorJson) -> bool {
        self.expressions.rows.as_ref().is_some_and(|(_, rows)| phases::has_rows(of, rows))
    }

    /// A value in a sharding, by its key.
    fn tensor(&self, key: &Key) -> Option<TensorJson> {
        let steps = self.plan.steps.iter();
        let made = steps.flat_map(|step| step.operands.iter().chain([&step.result]));
        let given = self.plan.values.iter().filter_map(|value| value.given.as_ref());
        made.chain(given).find(|of| self.flow.key(of) == *key).cloned()
    }

    fn is_by_row(&self, key: &Key) -> bool {
        self.tensor(key).is_some_and(|of| self.has_rows(&of))
    }

    fn given(
        &mut self,
        number: usize,
        body: &[NodeJson],
        inside: &mut IndexMap<Key, String>,
    ) -> Result<Given> {
        let mut given = Given::default();
        for (key, exit) in self.flow.loops[number].entering.clone() {
            let by_row = self.is_by_row(&key);
            let Some(of) = self.tensor(&key) else { continue };
            let mut all = self.entering(&key, exit)?;
            if by_row && exit.is_none() {
                let parts = self.parts_of("x", &of)?;
                let framework = self.expressions.dialect.framework();
                all = format!("{framework}.vmap(lambda x: {parts})({all})");
            }
            let name = self.names.fresh(&key.0);
            let rows = if by_row { &mut given.rows } else { &mut given.layers };
            rows.push([all, name.clone()]);
            inside.insert(key, name);
        }
        for of in self.read_by_row(body, inside) {
            let variable = self.variable(&of)?;
            let name = self.names.fresh(&of.value);
            given.batches.push([self.parts_of(&variable, &of)?, name.clone()]);
            inside.insert(self.flow.key(&of), name);
        }
        Ok(given)
    }

    /// Values with rows that the layers read from outside.
    fn read_by_row(&self, body: &[NodeJson], inside: &IndexMap<Key, String>) -> Vec<TensorJson> {
        let mut made: IndexSet<Key> = inside.keys().cloned().collect();
        let mut found: IndexMap<Key, TensorJson> = IndexMap::new();
        for number in phases::steps(body) {
            let step = &self.plan.steps[number];
            let is_first =
                step.operation == Some(Operation::Carry) && self.flow.paths[number].len() == 1;
            for of in step.operands.iter().filter(|of| !is_first && self.has_rows(of)) {
                let key = self.flow.key(of);
                if !made.contains(&key) {
                    found.insert(key, of.clone());
                }
            }
            made.insert(self.flow.key(&step.result));
        }
        found.into_values().collect()
    }

    /// What a layer passes on, keeps and sums up; what is summed up, and the variables that hold
    /// all of that afterwards.
    fn leave_stages(&mut self, number: usize, frame: &mut Frame) -> Result<(Sums, Vec<Left>)> {
        let mut left = Vec::new();
        let mut sums = Sums::new();
        let leaving = self.flow.loops[number].leaving.clone();
        for carried in &mut frame.carried {
            let key = (std::mem::take(&mut carried[2]), std::mem::take(&mut carried[3]));
            carried[2] = self.own(&key, Exit::Last)?;
            carried[3] = "_".to_owned();
            let is_last = self.flow.level(number, &key, Exit::Last) == Exit::Last;
            if is_last && leaving.contains(&(key.clone(), Exit::Last)) {
                carried[3] = self.names.fresh(&format!("{}_parts", key.0));
                let all = self.joined_rows(&carried[3].clone(), &key)?;
                left.push(((key, Exit::Last), all));
            }
        }
        for (key, exit) in leaving {
            if left.iter().any(|((other, how), _)| *other == key && *how == exit) {
                continue;
            }
            let own = self.own(&key, exit)?;
            let by_row = self.is_by_row(&key);
            let all = if by_row {
                self.kept(frame, own, &key)
            } else {
                self.summed(number, &mut sums, own, &key)?
            };
            left.push(((key.clone(), exit), self.after(number, (&key, exit), by_row, all)?));
        }
        Ok((sums, left))
    }

    /// The sums over microbatches of a value of a layer.
    fn summed(&mut self, number: usize, sums: &mut Sums, own: String, key: &Key) -> Result {
        if let Some([_, _, all]) = sums.iter().find(|[value, ..]| *value == own) {
            return Ok(all.clone());
        }
        let slots = self.slots(self.flow.loops[number].block);
        let zeros = self.zeros(number, key, Some(slots))?;
        let all = self.names.fresh(&format!("{}_sums", key.0));
        sums.push([own, zeros, all.clone()]);
        Ok(all)
    }

    /// The expression of what left a loop.
    fn after(
        &mut self,
        number: usize,
        (key, exit): (&Key, Exit),
        by_row: bool,
        all: String,
    ) -> Result {
        match self.flow.level(number, key, exit) {
            Exit::All => Ok(all),
            Exit::Last => unsupported(&key.0, "this value of the last layer of a pipeline"),
            Exit::Sum => {
                let sum = self.sum_of_layers(number, &all);
                if by_row { self.joined_rows(&sum, key) } else { Ok(sum) }
            }
        }
    }

    /// The sum over the layers of a stage.
    pub(super) fn sum_of_layers(&mut self, number: usize, all: &str) -> String {
        self.expressions.helper("sum_of_layers");
        let block = self.flow.loops[number].block;
        let stages = self.plan.blocks[block].pipeline.as_ref();
        let axis = stages.map(|stages| stages.axis.clone()).into_iter().collect::<Vec<_>>();
        let me = self.expressions.dialect.axis_index(&axis);
        format!("sum_of_layers({all}, {}, {me})", self.chunks_name(block))
    }

    /// The rows of all microbatches.
    fn joined_rows(&mut self, parts: &str, key: &Key) -> Result {
        self.expressions.helper("joined");
        let Some(of) = self.tensor(key) else { return unsupported(&key.0, "a value of a layer") };
        let Some((_, rows)) = &self.expressions.rows else { return Ok(parts.to_owned()) };
        let place = of.dims.iter().position(|dim| rows.contains(&dim.dim)).unwrap_or(0);
        Ok(format!("joined({parts}, {place})"))
    }

    fn write_layer(
        &mut self,
        call: &Call<'_>,
        body: &str,
        (frame, given, sums): (&Frame, &Given, &Sums),
        indent: usize,
    ) {
        let lists = [&given.layers, &given.rows, &given.batches];
        let parts: Vec<String> = lists.iter().flat_map(|list| column(list, 1)).collect();
        self.text += "\n";
        self.line(indent, &format!("def {}(carried, given_part):", call.function));
        self.text += &layout::unpacked(indent + 4, &column(&frame.carried, 1), "carried");
        if !parts.is_empty() {
            self.text += &layout::unpacked(indent + 4, &parts, "given_part");
        }
        self.text += body;
        let made = [column(&frame.carried, 2), column(&frame.kept, 0), column(sums, 0)];
        let made = made.map(|list| tuple(&list)).join(", ");
        self.line(indent + 4, &format!("return {made}"));
        self.text += "\n";
        let arrays = lists.map(|list| tuple(&column(list, 0))).join(", ");
        let chunks = self.chunks_name(self.flow.loops[call.number].block);
        let reverse = if call.reverse { ", reverse=True" } else { "" };
        let first = tuple(&column(&frame.carried, 0));
        let zeros = tuple(&column(sums, 1));
        let dialect = self.expressions.dialect;
        let function = call.function;
        let stages = dialect.stages(&mut self.expressions, call.axis);
        let text = format!(
            "last, kept, sums = run_stages({function}, {stages}, {chunks}, {first}, ({arrays}), \
             {zeros}{reverse})"
        );
        self.line(indent, &text);
        let after = [
            (column(&frame.carried, 3), "last"),
            (column(&frame.kept, 1), "kept"),
            (column(sums, 2), "sums"),
        ];
        for (names, from) in after {
            if names.iter().any(|name| name != "_") {
                self.text += &layout::unpacked(indent, &names, from);
            }
            names.iter().filter(|name| *name != "_").for_each(|name| {
                self.names.fresh(name);
            });
        }
    }

    /// Variables for what is left of a loop, where that is an expression.
    fn write_left(&mut self, left: Vec<Left>, indent: usize) {
        for ((key, exit), text) in left {
            let name = if text.contains('(') {
                let name = self.names.fresh(&format!("{}_{}", key.0, exit.word()));
                self.line(indent, &format!("{name} = {text}"));
                name
            } else {
                text
            };
            self.left.insert((key, exit), name);
        }
    }
}

/// One of the strings of each row.
fn column<const N: usize>(rows: &[[String; N]], place: usize) -> Vec<String> {
    rows.iter().map(|row| row[place].clone()).collect()
}

/// The call of `run_stages`.
struct Call<'c> {
    number: usize,
    axis: &'c str,
    function: &'c str,
    reverse: bool,
}
