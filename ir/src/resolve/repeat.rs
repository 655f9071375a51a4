//! Blocks: loop-carried values, and the meaning of names inside a block and after it.
//!
//! An author writes `carry x` and redefines `x`. In the tables every value has its own name: inside
//! the block `x` is `x.in`, its redefinitions are `x.1`, `x.2`, …, and after the block it is
//! `x.end`. Plans are printed with these names, so the language also has `carry x.in = x`,
//! `next x.in = x.2` and `x.end = last(x.2)`. One name for all of them would make brackets
//! ambiguous: `x[B_X]` of which layer?
//!
//! A block in a block that carries the same name redefines it there: what its last layer gives is
//! the next `x` of the outer layer.

mod faults;
mod names;

pub(super) use names::drop_unread;

use crate::codes::repeat as codes;
use indexmap::{IndexMap, IndexSet};
use shardwise_grammar::ast::{self, Definition, ExprKind, Statement, TensorDecl};
use shardwise_grammar::span::{Name, Span, Spanned};

use super::Resolver;
use super::define::Target;
use crate::Diag;
use crate::blocks::MOST_NESTED;
use crate::ids::{RepeatId, ValueId};
use crate::program::{BlockKind, Blocks, MapForm, Mode, Operand, Repeat, Scan, Value};
use crate::sharding::Pin;

/// What is known of a block as it is opened.
pub(super) struct Opening<'n> {
    pub(super) name: &'n Name,
    pub(super) count: u64,
    /// The earlier block that it reverses.
    pub(super) reversed: Option<RepeatId>,
    pub(super) scan: Option<Scan>,
    pub(super) kind: BlockKind,
}

/// A block that is open.
pub(super) struct Block {
    pub(super) id: RepeatId,
    /// The carried values, by the author's name.
    carried: IndexMap<String, Carried>,
    /// For names that redefine a loop-carried value, the value that enters a layer instead.
    redefined: IndexMap<String, ValueId>,
    /// Loop-carried values that have been yielded.
    yielded: IndexSet<ValueId>,
    /// Its `hold` statements.
    pub(super) holds: Vec<Span>,
    pub(super) span: Span,
}

/// One of the values that a block carries.
struct Carried {
    /// Its value at the start of a layer.
    enters: ValueId,
    /// Its current value.
    latest: ValueId,
    /// Whether a redefinition was left out for its errors.
    is_faulty: bool,
    span: Span,
}

/// The function that exports a value from its block.
pub(super) fn export_form(function: &str) -> Option<MapForm> {
    match function {
        "last" => Some(MapForm::Last),
        "total" => Some(MapForm::Total),
        _ => None,
    }
}

/// The meaning of names, where blocks that carried them have ended.
pub(super) type Ends = IndexMap<String, End>;

/// The meaning of a carried name after its block.
pub(super) enum End {
    /// The value of the last layer, not yet exported.
    Pending(ValueId),
    /// The exported value.
    Taken(ValueId),
}

impl Resolver<'_> {
    /// The current block.
    pub(super) fn inside(&self) -> Option<RepeatId> {
        self.block_of_layers().or(self.microbatches)
    }

    /// The current `repeat`.
    pub(super) fn block_of_layers(&self) -> Option<RepeatId> {
        self.blocks.last().map(|block| block.id)
    }

    /// Opens a block; `rest` begins with its statements.
    pub(super) fn open(&mut self, of: &ast::Repeat, span: Span, rest: &[Spanned<Statement>]) {
        let Some((count, reversed)) = self.layers(of) else { return self.not_opened() };
        let opening =
            Opening { name: &of.name, count, reversed, scan: None, kind: BlockKind::Layers };
        self.open_block(opening, span, rest);
    }

    /// Opens a block.
    pub(super) fn open_block(
        &mut self,
        opening: Opening<'_>,
        span: Span,
        rest: &[Spanned<Statement>],
    ) {
        let Opening { name, count, reversed, scan, kind } = opening;
        if let Some(outer) = self.blocks.get(MOST_NESTED - 1) {
            let message = format!("blocks nest more than {MOST_NESTED} deep");
            let diag = Diag::error(codes::NESTED, message, span, "opened here");
            let diag = diag.and(outer.span, "in this one");
            self.error(diag.help("repeat the product of two of them, or write the body out"));
            return self.not_opened();
        }
        self.take_ends();
        let carried = self.carried_in(own_statements(rest));
        let id = self.repeats.push(Repeat {
            name: self.block_name(name, (reversed, scan.is_some(), kind)),
            count,
            reversed,
            checkpoint: None,
            offload: None,
            kept_gathered: Vec::new(),
            within: self.inside(),
            kind,
            microbatches_of: None,
            scan,
            pipeline: None,
            span,
        });
        self.staged(id);
        self.ends.push(Ends::new());
        self.blocks.push(Block {
            id,
            carried: IndexMap::new(),
            redefined: IndexMap::new(),
            yielded: IndexSet::new(),
            holds: Vec::new(),
            span,
        });
        for (name, pin, init) in carried {
            self.enter_carried(&name, pin, init);
        }
    }

    /// The number of layers, and the earlier block that it reverses.
    fn layers(&mut self, of: &ast::Repeat) -> Option<(u64, Option<RepeatId>)> {
        if let Some(size) = &of.count {
            let written = self.size(size)?;
            let given = self.given_sizes.iter().find(|given| given.name == of.name.node);
            return Some((given.map_or(written, |given| given.size), None));
        }
        let found = self
            .forward_here(&of.name.node, false, BlockKind::Layers)
            .map(|id| (self.repeats[id].count, Some(id)));
        if found.is_none() {
            let message = format!("no earlier `repeat {}=…` has layers to reverse", of.name.node);
            let diag = Diag::error(codes::NO_BLOCK, message, of.name.span, "not repeated before");
            self.error(diag.help(format!(
                "write the number of layers: `repeat {}=4 \
                {{`",
                of.name.node
            )));
        }
        found
    }

    /// The forward block of a name among those that are directly in the current layers: a scan, or
    /// a block of layers.
    pub(super) fn forward_here(
        &self,
        name: &str,
        is_scan: bool,
        kind: BlockKind,
    ) -> Option<RepeatId> {
        let around = self.repeats.layers_at(self.block_of_layers());
        let is_here = |repeat: &Repeat| self.repeats.layers_at(repeat.within) == around;
        let mut blocks = self.repeats.iter_enumerated().rev();
        let is_it = |repeat: &Repeat| {
            repeat.name == name
                && repeat.kind == kind
                && repeat.reversed.is_none()
                && repeat.scan.is_some() == is_scan
        };
        blocks.find(|(_, repeat)| is_it(repeat) && is_here(repeat)).map(|(id, _)| id)
    }

    /// The name of a block in the tables: an earlier one of the same layers may have this name, and
    /// `repeat M reversed` could be either.
    fn block_name(
        &self,
        Name { node: name, .. }: &Name,
        (reversed, is_scan, kind): (Option<RepeatId>, bool, BlockKind),
    ) -> String {
        let numbered = (2..=self.repeats.len() + 1).map(|number| format!("{name}.{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names
            .find(|name| reversed.is_some() || self.forward_here(name, is_scan, kind).is_none());
        free.unwrap_or_else(|| name.clone())
    }

    /// The carried names of a block: those of values from before it.
    fn carried_in<'s>(
        &mut self,
        body: impl Iterator<Item = &'s Statement>,
    ) -> Vec<(Name, Option<Pin>, ValueId)> {
        let tensors = body.flat_map(|statement| match statement {
            Statement::Carry(tensors) => tensors.iter().collect::<Vec<_>>(),
            Statement::Enter(definition)
                if self.value_names.contains_key(&definition.target.name.node) =>
            {
                vec![&definition.target]
            }
            _ => Vec::new(),
        });
        let tensors: Vec<&TensorDecl> = tensors.collect();
        tensors.into_iter().filter_map(|tensor| self.carried_from(tensor)).collect()
    }

    fn carried_from(&mut self, tensor: &TensorDecl) -> Option<(Name, Option<Pin>, ValueId)> {
        let init = self.value(&tensor.name)?;
        let Some(written) = &tensor.layout else { return Some((tensor.name.clone(), None, init)) };
        let (dims, pin) = self.layout(written)?;
        self.same_dims(init, &dims, written.span).then(|| (tensor.name.clone(), Some(pin), init))
    }

    fn enter_carried(&mut self, name: &Name, pin: Option<Pin>, init: ValueId) {
        if self.mode == Mode::Explicit && pin.as_ref().is_none_or(|pin| pin.exact().is_none()) {
            self.needs_brackets(name);
            return;
        }
        let operand = Operand {
            value: init,
            pin: pin.clone().filter(|_| self.mode == Mode::Explicit),
            span: name.span,
        };
        let operation = self.map(MapForm::LoopCarried, vec![operand]);
        let fresh = self.fresh([format!("{}.in", name.node)].into_iter(), &name.node);
        let written = pin.map(|pin| (self.values[init].dims.clone(), pin, name.span));
        let dtype = Some(self.values[init].dtype);
        let target = Target { name: Name::new(fresh, name.span), dtype, written, wished: None };
        let Some(enters) = self.finish_operation(operation, target, name.span) else { return };
        if let Some(block) = self.blocks.last_mut() {
            block.carried.insert(
                name.node.clone(),
                Carried { enters, latest: enters, is_faulty: false, span: name.span },
            );
        }
    }

    /// The first of the names that is free, else a numbered one.
    pub(super) fn fresh(&self, mut wished: impl Iterator<Item = String>, base: &str) -> String {
        let free = |name: &String| {
            !self.value_names.contains_key(name) && !self.defined_at.contains_key(name.as_str())
        };
        let numbered = || {
            (1..=self.values.len() + self.defined_at.len() + 1)
                .map(|number| format!("{base}.{number}"))
                .find(free)
                .unwrap_or_default()
        };
        wished.find(free).unwrap_or_else(numbered)
    }

    /// A definition of a carried name, under the name that it has in the tables; and the carried
    /// name.
    pub(super) fn redefined(&mut self, definition: &Definition) -> Option<(Definition, String)> {
        let name = definition.target.name.node.clone();
        let enters = self.blocks.last()?.carried.get(&name)?.enters;
        let mut renamed = definition.clone();
        renamed.target.name.node = self.fresh(std::iter::empty(), &name);
        self.blocks.last_mut()?.redefined.insert(renamed.target.name.node.clone(), enters);
        Some((renamed, name))
    }

    /// Sets the current value of a carried name to a definition.
    pub(super) fn took(&mut self, carried: &str, fresh: &str) {
        let given = self.value_names.get(fresh).copied();
        let Some(block) = self.blocks.last_mut() else { return };
        let Some(carried) = block.carried.get_mut(carried) else { return };
        match given {
            Some(given) => carried.latest = given,
            None => carried.is_faulty = true,
        }
    }

    /// The value that enters a layer under the name for which `fresh` is about to be given.
    pub(super) fn entering(&self, fresh: &str) -> Option<&Value> {
        Some(&self.values[*self.blocks.last()?.redefined.get(fresh)?])
    }

    /// `carry x.in = x`; `carry x = h + y` is also the initial value of the next layer.
    pub(super) fn enter(&mut self, definition: &Definition, span: Span) {
        let name = &definition.target.name;
        let Some(block) = self.in_block(name.span, "carry") else { return };
        if block.carried.contains_key(&name.node) {
            self.define(definition, span);
            return;
        }
        let ExprKind::Tensor { name: init, layout } = &definition.value.node else {
            let diag = Diag::error(
                codes::CARRY,
                format!("`{}` starts as an expression", name.node),
                definition.value.span,
                "not a value",
            );
            self.error(diag.help(format!(
                "give it a name before the block: `{}.0 = …`, then `carry {0} = {0}.0`",
                name.node
            )));
            self.poison(&name.node);
            return;
        };
        let entered = self
            .is_free(name)
            .then(|| self.named_operand(init, layout.as_ref(), definition.value.span))
            .flatten();
        let given = entered.and_then(|operand| {
            let target = self.target(definition)?;
            let operation = self.map(MapForm::LoopCarried, vec![operand]);
            self.finish_operation(operation, target, span)
        });
        if given.is_none() {
            self.poison(&name.node);
        }
    }

    pub(super) fn close(&mut self) {
        let Some(block) = self.blocks.last_mut() else { return self.close_microbatches() };
        let (id, holds) = (block.id, std::mem::take(&mut block.holds));
        let carried = std::mem::take(&mut block.carried);
        self.held_in_vain(id, holds);
        let mut ends = Vec::new();
        for (name, carried) in carried {
            if carried.latest == carried.enters {
                self.never_redefined(&name, &carried);
                self.note_yielded(carried.enters);
                continue;
            }
            self.yield_value(carried.enters, carried.latest, &[], carried.span);
            // Other dimensions are reported; after the block, the name is that of before it.
            if self.values[carried.latest].dims == self.values[carried.enters].dims {
                ends.push((name, carried.latest));
            }
        }
        let block = self.blocks.last_mut();
        let yielded = block.map(|block| std::mem::take(&mut block.yielded)).unwrap_or_default();
        self.unfinished(&yielded);
        self.is_empty(id);
        self.stage(id);
        let left = self.names_after(id);
        self.blocks.pop();
        self.ends.pop();
        for (name, value) in left {
            self.ended(name, value);
        }
        for (name, latest) in ends {
            self.ended(name, latest);
        }
    }

    /// A block has carried a name: where the block around it carries the name too, it redefines it.
    fn ended(&mut self, name: String, latest: ValueId) {
        let outer = self.blocks.last().and_then(|outer| outer.carried.get(&name));
        if outer.is_none() {
            if let Some(ends) = self.ends.last_mut() {
                ends.insert(name, End::Pending(latest));
            }
            return;
        }
        let fresh = self.fresh(std::iter::empty(), &name);
        let span = self.values[latest].span;
        if self.export_last(fresh.clone(), latest, span).is_some() {
            self.took(&name, &fresh);
        }
    }

    pub(super) fn note_yielded(&mut self, enters: ValueId) {
        if let Some(block) = self.blocks.last_mut() {
            block.yielded.insert(enters);
        }
    }
}

/// The statements of the block that `rest` begins in, without those of blocks inside.
fn own_statements(rest: &[Spanned<Statement>]) -> impl Iterator<Item = &Statement> {
    let mut depth = 0_usize;
    let in_block = rest.iter().map(|statement| &statement.node).map_while(move |statement| {
        match statement {
            of if of.opens_block() => depth += 1,
            Statement::Close => depth = depth.checked_sub(1)?,
            _ => {}
        }
        Some((depth, statement))
    });
    in_block.filter(|(depth, _)| *depth == 0).map(|(_, statement)| statement)
}
