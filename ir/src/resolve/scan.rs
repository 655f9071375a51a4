//! `scan T in C { … }`: a block whose steps read values chunk by chunk along a dimension.
//!
//! ```text
//! S: f32[B, K, V] = 0.0
//! scan T in C {                  # once for each chunk of C elements along T
//!   carry S
//!   o = q *K S                   # q[B, T, K] is read as q[B, C, K]
//!   S = S + k *C v
//! }
//! O = stack(o)                   # O[B, T, V]
//! ```
//!
//! The steps are layers that share their parameters, so a scan is a `repeat` with two more
//! operations: `chunk(x)` is what a step reads of a value from outside, `stack(y)` the values of
//! all steps in order, beside `last(y)` and `total(y)`. Inside the block the dimension does not
//! exist, so a name there means the chunk, and authors need not write `chunk`; plans do. `scan T {`
//! reads one element a step, as `lax.scan` does.
//!
//! Alternatives: `repeat N { x = slice(…) }` with the number of the layer as a place makes the
//! compiler prove that places are chunks side by side; `scan T in C of q, k, v { … }` lists what is
//! read, which the body says already, and an operand that is not in the list would be read whole
//! without a word. A stack of every result that is read after the block, without `stack`, would
//! give one name two shapes.

use shardwise_grammar::ast::{self, Call, ExprKind, Statement, TensorDecl};
use shardwise_grammar::span::{Name, Span, Spanned};

use super::Resolver;
use super::define::{Operation, Target};
use super::repeat::Opening;
use crate::Diag;
use crate::codes::{names, repeat as codes};
use crate::ids::{DimId, ValueId};
use crate::program::{BlockKind, Blocks, Mode, Op, OpKind, Operand, Scan};
use crate::rearrange::Rearrange;

impl Resolver<'_> {
    /// Opens a scan; `rest` begins with its statements.
    pub(super) fn open_scan(&mut self, of: &ast::Scan, span: Span, rest: &[Spanned<Statement>]) {
        if of.is_reversed {
            let found = self.forward_here(&of.dim.node, true, BlockKind::Layers);
            let Some(id) = found else { return self.nothing_to_reverse(&of.dim) };
            let (count, scan) = (self.repeats[id].count, self.repeats[id].scan);
            let (name, reversed) = (&of.dim, Some(id));
            let opening = Opening { name, count, reversed, scan, kind: BlockKind::Layers };
            return self.open_block(opening, span, rest);
        }
        let Some((count, scan)) = self.steps(of) else { return self.not_opened() };
        let (name, scan) = (&of.dim, Some(scan));
        let opening = Opening { name, count, reversed: None, scan, kind: BlockKind::Layers };
        self.open_block(opening, span, rest);
    }

    fn nothing_to_reverse(&mut self, name: &Name) {
        let message = format!("no earlier `scan {}` has steps to reverse", name.node);
        let diag = Diag::error(codes::NO_BLOCK, message, name.span, "not scanned before");
        self.error(diag.help(format!("write `scan {} {{`, or `scan {0} in C {{`", name.node)));
        self.not_opened();
    }

    /// The number of steps, and what they read.
    fn steps(&mut self, of: &ast::Scan) -> Option<(u64, Scan)> {
        let dim = self.dim(&of.dim)?;
        let Some(name) = &of.chunk else {
            return Some((self.dims[dim].size, Scan { dim, chunk: None }));
        };
        let chunk = self.dim(name)?;
        let (whole, part) = (&self.dims[dim], &self.dims[chunk]);
        let padded = [whole, part].into_iter().find(|dim| dim.pad);
        let message = if dim == chunk {
            format!("a chunk of `{}` cannot be `{0}` itself", whole.name)
        } else if let Some(padded) = padded {
            format!("`{}` is padded, and cannot be cut into chunks", padded.name)
        } else if !whole.size.is_multiple_of(part.size) {
            format!(
                "`{}` = {} is not a multiple of `{}` = {}",
                whole.name, whole.size, part.name, part.size
            )
        } else {
            return Some((whole.size / part.size, Scan { dim, chunk: Some(chunk) }));
        };
        let help = if dim == chunk {
            format!(
                "write `scan {} {{`, which reads one element a step, or a shorter chunk",
                whole.name
            )
        } else {
            format!("declare a dimension of a chunk that divides `{}`", whole.name)
        };
        let diag = Diag::error(names::BAD_SIZE, message, name.span, "so many elements a step");
        let diag = diag.and(whole.span, "of this");
        self.error(diag.help(help));
        None
    }

    /// Whether a declaration stands in a scan, whose steps have no values of their own; reports it.
    pub(super) fn is_declared_in_scan(&mut self, tensor: &TensorDecl) -> bool {
        let around = self.repeats.outwards(self.block_of_layers());
        let scan = around.map(|block| &self.repeats[block]).find(|block| block.scan.is_some());
        let Some(opened) = scan.map(|block| block.span) else { return false };
        let name = &tensor.name;
        let message =
            format!("`{}` is declared in a scan, whose steps share what is declared", name.node);
        let diag = Diag::error(codes::SCAN, message, name.span, "declared here");
        self.error(diag.and(opened, "the scan").help("declare it before the block"));
        self.poison(&name.node);
        true
    }

    /// What a name stands for here: in scans, the chunk that the step reads of a value from
    /// outside.
    pub(super) fn read_in_scans(&mut self, value: ValueId, span: Span) -> Option<ValueId> {
        if self.mode == Mode::Explicit {
            return Some(value);
        }
        let mut read = value;
        for depth in 0..self.blocks.len() {
            let block = self.blocks[depth].id;
            let Some(scan) = self.repeats[block].scan else { continue };
            let of = &self.values[read];
            if of.dims.contains(&scan.dim) && !self.repeats.iterates_over(of.repeat, block) {
                read = self.chunk_in(depth, scan, read, span)?;
            }
        }
        Some(read)
    }

    /// The chunk of a value in the scan that is so deep; each scan reads a value once.
    fn chunk_in(
        &mut self,
        depth: usize,
        scan: Scan,
        value: ValueId,
        span: Span,
    ) -> Option<ValueId> {
        let block = self.blocks[depth].id;
        let reads = |op: &&Op| {
            let is_chunk = matches!(op.kind, OpKind::Rearrange(Rearrange::Chunk { .. }));
            op.repeat == Some(block) && is_chunk && op.operands[0].value == value
        };
        if let Some(op) = self.ops.iter().find(reads) {
            return Some(op.result);
        }
        let operation = self.chunk_of(scan, Operand { value, pin: None, span })?;
        let base = self.values[value].name.clone();
        let kind = if scan.chunk.is_some() { "chunk" } else { "step" };
        let name = self.fresh([format!("{base}.{kind}")].into_iter(), &base);
        let name = Name::new(name, span);
        let target = Target { name, dtype: None, written: None, wished: None };
        let chunk = self.finish_operation(operation, target, span)?;
        if let Some(inner) = self.blocks.get(depth + 1).map(|inner| inner.id) {
            // Before the block inside, which is open already.
            let mut op = self.ops.pop()?;
            let at = self.ops.iter().position(|op| self.repeats.is_inside(op.repeat, inner));
            op.repeat = Some(block);
            self.values[chunk].repeat = Some(block);
            self.ops.insert(at.map_or(self.ops.next_idx(), Into::into), op);
        }
        Some(chunk)
    }

    fn chunk_of(&mut self, Scan { dim, chunk }: Scan, operand: Operand) -> Option<Operation> {
        let value = &self.values[operand.value];
        if let Some(chunk) = chunk.filter(|chunk| value.dims.contains(chunk)) {
            let (whole, part) = (self.dim_name(dim), self.dim_name(chunk));
            let message = format!("`{}` has both `{whole}` and `{part}`", value.name);
            if self.diags.iter().any(|known| known.message == message) {
                return None;
            }
            let diag = Diag::error(codes::SCAN, message, operand.span, "read chunk by chunk");
            let help = format!("give the chunk another dimension: `dim {part}'={part}`");
            self.error(diag.help(format!("{help}, `scan {whole} in {part}' {{`")));
            return None;
        }
        let how = Rearrange::Chunk { from: dim, to: chunk, step: 0 };
        Some(self.plain(OpKind::Rearrange(how), vec![operand]))
    }

    fn dim_name(&self, dim: DimId) -> String {
        self.dims[dim].name.clone()
    }

    /// The value that a name stands for where a step of a scan reads a chunk of it, by that chunk.
    pub(super) fn read_as_chunk(&self, chunk: ValueId) -> Option<ValueId> {
        let is_chunk = |op: &&Op| matches!(op.kind, OpKind::Rearrange(Rearrange::Chunk { .. }));
        let op = self.ops.iter().filter(is_chunk).find(|op| op.result == chunk)?;
        (self.mode == Mode::Ordinary).then(|| op.operands[0].value)
    }

    /// `chunk(x)`: what the current step reads of a value from outside.
    pub(super) fn chunk(&mut self, call: &Call, span: Span) -> Option<Operation> {
        let block = self.blocks.last().map(|block| block.id);
        let scan = block.and_then(|block| self.repeats[block].scan);
        let (Some(block), Some(scan), [argument], None) =
            (block, scan, &call.arguments[..], &call.subscript)
        else {
            let help = "write `scan T in C {` around it, where a name alone means its chunk";
            return self.bad_call_with("`chunk` takes one value, inside `scan`", span, help);
        };
        let ExprKind::Tensor { name, layout } = &argument.node else {
            let help = "write the expression with the names: in the scan they mean their chunks";
            return self.bad_call_with("`chunk` takes a value by its name", span, help);
        };
        let value = self.anywhere(name)?;
        let value = self.seen(value, name)?;
        let is_from_here = self.repeats.iterates_over(self.values[value].repeat, block);
        if is_from_here || !self.values[value].dims.contains(&scan.dim) {
            let whole = self.dim_name(scan.dim);
            let message = format!("`chunk` takes a value with `{whole}` from before the scan");
            let help = format!("write `{}` alone, which has no chunks", name.node);
            return self.bad_call_with(&message, span, &help);
        }
        let operand = self.placed(value, name, layout.as_ref(), argument.span)?;
        self.chunk_of(scan, operand)
    }

    /// `stack(y)`: the values of all steps, one after another.
    pub(super) fn stack(&mut self, call: &Call, span: Span) -> Option<Operation> {
        let ([argument], None) = (&call.arguments[..], &call.subscript) else {
            let help = "write `stack(y)` after the scan, with a name that its steps define";
            return self.bad_call_with("`stack` takes one value of a scan", span, help);
        };
        let ExprKind::Tensor { name, layout } = &argument.node else {
            let help = "give the expression a name in the scan, and stack that";
            return self.bad_call_with("`stack` takes a value by its name", span, help);
        };
        let value = self.anywhere(name)?;
        let left = self.repeats.exited_block(self.inside(), self.values[value].repeat);
        let Some(Scan { dim, chunk }) = left.and_then(|block| self.repeats[block].scan) else {
            let message = format!("`stack({})` is for values of a scan, after it", name.node);
            let help = "stack a name that the steps of a scan define; others are whole already";
            return self.bad_call_with(&message, span, help);
        };
        let dims = &self.values[value].dims;
        if let Some(chunk) = chunk.filter(|chunk| !dims.contains(chunk)) {
            let (name, part) = (&name.node, self.dim_name(chunk));
            let message = format!("`{name}` has no `{part}` to stack");
            let diag = Diag::error(codes::SCAN, message, argument.span, "of one step");
            self.error(diag.help(format!(
                "write `total({name})` for the sum of all steps, `last({name})` for that of the \
                    last"
            )));
            return None;
        }
        if dims.contains(&dim) {
            let (name, whole) = (&name.node, self.dim_name(dim));
            let message = format!("`{name}` has `{whole}` in every step");
            let diag = Diag::error(codes::SCAN, message, argument.span, "stacked along it");
            self.error(diag.help(format!("rename `{whole}` in the block, or use `total({name})`")));
            return None;
        }
        let operand = self.placed(value, name, layout.as_ref(), argument.span)?;
        let how = Rearrange::Stack { from: chunk, to: dim };
        Some(self.plain(OpKind::Rearrange(how), vec![operand]))
    }
}
