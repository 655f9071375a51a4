//! Loops over the layers of a pipeline: a loop over ticks, in each of which a stage runs one chunk
//! of its layers, a loop inside, for one microbatch, and sends the result on.
//!
//! A stage that waits computes on what nothing reads, as collectives of the others wait for it.

use shardwise_ir::dtype::DType;

use super::super::json::StagesJson;
use super::super::walk::stages::Staged;
use super::array::Array;
use super::builder::list;
use super::loops::{Entry, Passed};
use super::timetable::{Timetable, longest, slots};
use super::writer::Writer;

/// What a device knows in a tick, and of a layer.
struct Now {
    tick: Array,
    /// Whether the stage does anything.
    busy: Array,
    microbatch: Array,
    /// The first slot of its chunk.
    first: Array,
    /// The number of a layer in the chunk, as it is counted and as it is.
    counter: Array,
    layer: Array,
    /// Its slot, and whether there is a layer.
    slot: Array,
    is_layer: Array,
}

/// What both loops pass on: each with its values inside the loop over ticks, inside the loop over
/// layers, and what that yields.
struct State {
    /// The values that pass the layers.
    carried: Vec<Array>,
    /// Those after a layer.
    passed: Vec<Array>,
    /// The sums over microbatches, in ticks, in layers, and after a layer.
    sums: [Vec<Array>; 3],
    /// What a chunk keeps, inside the loop over layers, and after a layer.
    kept: [Vec<Array>; 2],
}

impl Writer<'_> {
    pub(super) fn staged(&mut self, entry: Entry, stages: &StagesJson, of: &Staged<'_, Array>) {
        let now = self.named_now();
        let state = self.after_layer(&now, stages, of);
        let body = std::mem::replace(&mut self.builder.text, entry.before);
        self.builder.indent -= 4;
        self.rows = None;
        let timetable = Timetable::of(stages, of.reverse);
        let axis = [stages.axis.clone()];
        let me = self.place(&axis);
        let table = self.turns(&timetable, &me);
        let is_layer = self.is_layer(stages, &me);
        let ticks = timetable.turns.len() as u64;
        let (arrived, history, passed) = self.passed_by_ticks(&timetable, &state, of);
        self.open(&now.tick, &passed, ticks);
        self.begin_tick(&now, &table, longest(stages) as u64);
        let carried = self.entering(&now, &table, of, &arrived);
        let kept = self.run_chunk(&now, &state, of, (&carried, &is_layer, &body), stages);
        let yielded = self.end_tick((&now, stages, &timetable), &history, kept, of);
        self.close(&now.tick, &yielded);
        self.left(&timetable, (&me, &passed), of);
    }

    fn named_now(&mut self) -> Now {
        let mut scalar = |name: &str, dtype| self.builder.declared(name, &[], dtype);
        Now {
            tick: scalar("tick", DType::Int32),
            busy: scalar("is_busy", DType::Bool),
            microbatch: scalar("microbatch", DType::Int32),
            first: scalar("first_slot", DType::Int32),
            counter: scalar("i", DType::Int32),
            layer: scalar("layer", DType::Int32),
            slot: scalar("slot", DType::Int32),
            is_layer: scalar("is_layer", DType::Bool),
        }
    }

    /// What follows the body of a layer: what it passes on, keeps and adds up.
    fn after_layer(&mut self, now: &Now, stages: &StagesJson, of: &Staged<'_, Array>) -> State {
        let b = &mut self.builder;
        let mut state = State {
            carried: of.frame.carried.iter().map(|one| one.inside.clone()).collect(),
            passed: Vec::new(),
            sums: [Vec::new(), Vec::new(), Vec::new()],
            kept: [Vec::new(), Vec::new()],
        };
        for one in &of.frame.carried {
            state.passed.push(b.select(&now.is_layer, &one.passed, &one.inside));
        }
        let is_added = b.binary("and", &now.is_layer, &now.busy);
        for sum in of.sums {
            let [ticks, layers] =
                [b.fresh(), b.fresh()].map(|name| Array { name, ..sum.zeros.clone() });
            let nothing = b.like(&sum.own, 0.0);
            let added = b.select(&is_added, &sum.own, &nothing);
            let so_far = b.element(&layers, &now.slot);
            let total = b.binary("add", &so_far, &added);
            let total = b.reshape(&total, &[&[1], added.shape.as_slice()].concat());
            state.sums[2].push(b.updated(&layers, &total, std::slice::from_ref(&now.slot)));
            state.sums[0].push(ticks);
            state.sums[1].push(layers);
        }
        for (own, _) in &of.frame.kept {
            let shape = [&[longest(stages) as u64], own.shape.as_slice()].concat();
            let inside = Array { name: b.fresh(), shape, dtype: own.dtype };
            let part = b.reshape(own, &[&[1], own.shape.as_slice()].concat());
            state.kept[1].push(b.updated(&inside, &part, std::slice::from_ref(&now.layer)));
            state.kept[0].push(inside);
        }
        state
    }

    /// What this device does in each tick: whether anything, with which chunk, for which
    /// microbatch, and from where that arrives.
    fn turns(&mut self, timetable: &Timetable, me: &Array) -> Array {
        let turns = timetable.turns.iter().map(|turns| {
            list(
                turns
                    .iter()
                    .map(|it| list([usize::from(it.is_busy), it.chunk, it.microbatch, it.source])),
            )
        });
        let shape = [timetable.turns.len() as u64, timetable.turns[0].len() as u64, 4];
        let all = self.table(&list(turns), &shape, DType::Int32);
        let own = self.builder.part_along(&all, 1, me, 1);
        self.builder.reshape(&own, &[shape[0], 4])
    }

    /// A constant array, written out.
    fn table(&mut self, text: &str, shape: &[u64], dtype: DType) -> Array {
        let ty = super::array::tensor(shape, dtype);
        self.builder.define(shape, dtype, &format!("stablehlo.constant dense<{text}> : {ty}"))
    }

    /// Which slots of this device have a layer.
    fn is_layer(&mut self, stages: &StagesJson, me: &Array) -> Array {
        let slots = slots(stages);
        let shape = [slots.len() as u64, slots[0].len() as u64];
        let text = list(slots.iter().map(|of| list(of.iter().map(Option::is_some))));
        let all = self.table(&text, &shape, DType::Bool);
        self.builder.element(&all, me)
    }

    /// What the loop over ticks passes on: what arrived over each hop, sums, and by tick what left
    /// the layers and what they keep.
    fn passed_by_ticks(
        &mut self,
        timetable: &Timetable,
        state: &State,
        of: &Staged<'_, Array>,
    ) -> (Vec<Vec<Array>>, Vec<Array>, Vec<Passed>) {
        let b = &mut self.builder;
        let mut passed = Vec::new();
        let mut add = |b: &mut super::builder::Builder, first: Array, inside: &Array| {
            let (inside, after) = (inside.clone(), b.fresh());
            passed.push(Passed { first, inside, after });
        };
        let mut arrived = Vec::new();
        for _ in &timetable.hops {
            let one = |like: &Array| Array { name: String::new(), ..like.clone() };
            let mut values: Vec<Array> = state.carried.iter().map(one).collect();
            for value in &mut values {
                value.name = b.fresh();
                let nothing = b.like(value, 0.0);
                add(b, nothing, value);
            }
            arrived.push(values);
        }
        for (sum, inside) in of.sums.iter().zip(&state.sums[0]) {
            let nothing = b.like(&sum.zeros, 0.0);
            add(b, nothing, inside);
        }
        let mut history = Vec::new();
        for like in state.carried.iter().chain(&state.kept[0]) {
            let shape = [&[timetable.turns.len() as u64], like.shape.as_slice()].concat();
            let inside = Array { name: b.fresh(), shape, dtype: like.dtype };
            let nothing = b.like(&inside, 0.0);
            add(b, nothing, &inside);
            history.push(inside);
        }
        for (place, sum) in of.sums.iter().enumerate() {
            passed[timetable.hops.len() * state.carried.len() + place]
                .after
                .clone_from(&sum.all.name);
        }
        (arrived, history, passed)
    }

    /// What a device does in this tick.
    fn begin_tick(&mut self, now: &Now, table: &Array, longest: u64) {
        let turn = self.builder.element(table, &now.tick);
        let busy = self.entry_of(&turn, 0);
        let busy = self.is_true(&busy);
        let chunk = self.entry_of(&turn, 1);
        let microbatch = self.entry_of(&turn, 2);
        let b = &mut self.builder;
        let first = b.with("multiply", &chunk, longest as f64);
        b.alias(&busy, &now.busy.name);
        b.alias(&first, &now.first.name);
        b.alias(&microbatch, &now.microbatch.name);
    }

    fn entry_of(&mut self, turn: &Array, place: u64) -> Array {
        let one = self.builder.slice(turn, 0, [place, place + 1]);
        self.builder.reshape(&one, &[])
    }

    /// The values that enter the chunk: from outside, or what arrived.
    fn entering(
        &mut self,
        now: &Now,
        table: &Array,
        of: &Staged<'_, Array>,
        arrived: &[Vec<Array>],
    ) -> Vec<Array> {
        let turn = self.builder.element(table, &now.tick);
        let source = self.entry_of(&turn, 3);
        let mut carried = Vec::new();
        for (place, one) in of.frame.carried.iter().enumerate() {
            let mut value = self.builder.element(&one.first, &now.microbatch);
            for (hop, values) in arrived.iter().enumerate() {
                let number = self.builder.index(1 + hop as u64);
                let is_it = self.builder.compare("EQ", &source, &number);
                value = self.builder.select(&is_it, &values[place], &value);
            }
            carried.push(value);
        }
        carried
    }

    /// The loop over the layers of a chunk; returns what it leaves: carried values, sums, and what
    /// layers keep.
    fn run_chunk(
        &mut self,
        now: &Now,
        state: &State,
        of: &Staged<'_, Array>,
        (carried, is_layer, body): (&[Array], &Array, &str),
        stages: &StagesJson,
    ) -> Vec<Array> {
        let nothing: Vec<Array> =
            state.kept[0].iter().map(|like| self.builder.like(like, 0.0)).collect();
        let first = carried.iter().chain(&state.sums[0]).chain(&nothing);
        let inside = state.carried.iter().chain(&state.sums[1]).chain(&state.kept[0]);
        let mut passed = Vec::new();
        for (first, inside) in first.zip(inside) {
            let after = self.builder.fresh();
            passed.push(Passed { first: first.clone(), inside: inside.clone(), after });
        }
        let longest = longest(stages) as u64;
        self.open(&now.counter, &passed, longest);
        let b = &mut self.builder;
        let layer = if of.reverse {
            let last = b.index(longest - 1);
            b.binary("subtract", &last, &now.counter)
        } else {
            b.with("add", &now.counter, 0.0)
        };
        b.alias(&layer, &now.layer.name);
        let slot = b.binary("add", &now.first, &now.layer);
        b.alias(&slot, &now.slot.name);
        let own = b.element(is_layer, &now.slot);
        b.alias(&own, &now.is_layer.name);
        for (all, own) in &of.given.layers {
            let part = b.element(all, &now.slot);
            b.alias(&part, &own.name);
        }
        for (all, own) in &of.given.rows {
            let part = b.part(all, &[now.slot.clone(), now.microbatch.clone()], &[1, 1]);
            let part = b.reshape(&part, &own.shape);
            b.alias(&part, &own.name);
        }
        for (all, own) in &of.given.batches {
            let part = b.element(all, &now.microbatch);
            b.alias(&part, &own.name);
        }
        b.text += body;
        let yielded: Vec<Array> =
            state.passed.iter().chain(&state.sums[2]).chain(&state.kept[1]).cloned().collect();
        self.close(&now.counter, &yielded);
        let result = |one: Passed| Array { name: one.after, ..one.first };
        passed.into_iter().map(result).collect()
    }

    /// What a tick leaves: what is sent on, sums, and what left the layers and what they keep.
    fn end_tick(
        &mut self,
        (now, stages, timetable): (&Now, &StagesJson, &Timetable),
        history: &[Array],
        left: Vec<Array>,
        of: &Staged<'_, Array>,
    ) -> Vec<Array> {
        let (carried, rest) = left.split_at(of.frame.carried.len());
        let (sums, kept) = rest.split_at(of.sums.len());
        let axis = [stages.axis.clone()];
        let mut yielded = Vec::new();
        for &hop in &timetable.hops {
            for value in carried {
                if hop == 0 {
                    yielded.push(value.clone());
                    continue;
                }
                let pairs = self.devices.shifted(&axis, hop as u64);
                yielded.push(self.permuted(value, &pairs));
            }
        }
        yielded.extend(sums.iter().cloned());
        let b = &mut self.builder;
        for (value, all) in carried.iter().chain(kept).zip(history) {
            let part = b.reshape(value, &[&[1], value.shape.as_slice()].concat());
            yielded.push(b.updated(all, &part, std::slice::from_ref(&now.tick)));
        }
        yielded
    }

    /// What is left after all ticks: the microbatches after the last chunk, on the stage of that,
    /// and what layers keep, by slot and microbatch.
    fn left(
        &mut self,
        timetable: &Timetable,
        (me, passed): (&Array, &[Passed]),
        of: &Staged<'_, Array>,
    ) {
        let (carried, hops) = (of.frame.carried.len(), timetable.hops.len());
        let histories = &passed[hops * carried + of.sums.len()..];
        let result = |one: &Passed| Array { name: one.after.clone(), ..one.first.clone() };
        let last_stage = self.builder.index(timetable.last_stage as u64);
        let is_last = self.builder.compare("EQ", me, &last_stage);
        for (one, history) in of.frame.carried.iter().zip(histories) {
            let Some(after) = &one.after else { continue };
            let history = result(history);
            let b = &mut self.builder;
            let mut parts = Vec::new();
            for &tick in &timetable.last {
                parts.push(b.slice(&history, 0, [tick as u64, tick as u64 + 1]));
            }
            let all = b.concatenate(&parts, 0);
            let nothing = b.like(&all, 0.0);
            let own = b.select(&is_last, &all, &nothing);
            b.alias(&own, &after.name);
        }
        let when = list(timetable.when.iter().map(|of| list(of.iter().map(|of| list(of.clone())))));
        let shape = [timetable.when.len(), timetable.when[0].len(), timetable.last.len()];
        let when = self.table(&when, &shape.map(|size| size as u64), DType::Int32);
        let when = self.builder.element(&when, me);
        for ((_, all), history) in of.frame.kept.iter().zip(&histories[carried..]) {
            let found = self.gathered_rows(&result(history), &when, 0);
            let places: Vec<usize> = [0, 2, 1].into_iter().chain(3..found.rank()).collect();
            let by_slot = self.builder.transpose(&found, &places);
            let by_slot = self.builder.reshape(&by_slot, &all.shape);
            self.builder.alias(&by_slot, &all.name);
        }
    }

    /// The sum over the layers of a stage.
    pub(super) fn sum_of_layers(&mut self, all: &Array, block: usize) -> Array {
        let Some(stages) = self.plan.blocks[block].pipeline.as_ref() else {
            return self.builder.reduce(all, "add", &[0]);
        };
        let me = self.place(std::slice::from_ref(&stages.axis));
        let is_layer = self.is_layer(stages, &me);
        let is_layer = self.builder.broadcast(&is_layer, &all.shape, &[0]);
        let nothing = self.builder.like(all, 0.0);
        let own = self.builder.select(&is_layer, all, &nothing);
        self.builder.reduce(&own, "add", &[0])
    }
}
