//! The program as tables: what the author wrote, with names resolved to ids.
//!
//! This crate has two forms of one language. A [`Program`] is what an author writes: values,
//! operations, and pins (brackets) that constrain the shardings of some of them. A
//! [`crate::plan::Plan`] is the explicit form: every operand has its sharding and every collective
//! is a step. What was written (pins) is never mixed with what a pass decides (plans).

use index_vec::IndexVec;
use indexmap::IndexSet;
use shardwise_grammar::ast::Role;
pub use shardwise_grammar::ast::{Keeps, Phase, Until, Weights};
use shardwise_grammar::span::Span;

pub use crate::blocks::{BatchSplit, BlockKind, Blocks, Repeat, Scan};
use crate::collectives::Collectives;
use crate::dtype::DType;
use crate::filled::Filled;
pub use crate::functions::{
    Along, CollectiveKind, Digest, Fill, Linearity, MapFn, MapForm, Opaque, ReduceFn,
};
use crate::functions::{Composite, Function};
use crate::hardware::Hardware;
use crate::ids::{AxisId, DimId, OpId, RepeatId, ValueId};
use crate::mesh::{AxisKind, Mesh};
use crate::optimizer::Optimizer;
use crate::products::Products;
use crate::rearrange::{Rearrange, Route};
use crate::sharding::Pin;
pub use crate::tables::kernel::{Fusion, KernelPart, Recomputes};
pub use crate::tables::zigzag::{BandMask, Share, Zigzag};

/// A named dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// Its size, at least 1.
    pub size: u64,
    /// The dimensions whose product it was declared to be, major to minor (`N=K*G`); empty for a
    /// plain size.
    pub factors: Vec<DimId>,
    /// Whether it may be padded up to a multiple of the axes that split it.
    pub pad: bool,
    /// The order in which its elements stand, where that is not the order of the sequence.
    pub zigzag: Option<Zigzag>,
    /// Its declaration.
    pub span: Span,
}

/// An array of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its name, unique in the program.
    pub name: String,
    /// Its dimensions in order, each at most once.
    pub dims: Vec<DimId>,
    /// Its element type.
    pub dtype: DType,
    /// Whether the dtype was written (and so is printed).
    pub dtype_written: bool,
    /// `input`, `param` or `state` for declared values; `None` for results (outputs are listed
    /// apart).
    pub role: Option<Role>,
    /// How many of its elements a device holds: not all of them where routing fills few of the
    /// slots and drops no token ([`crate::sparse`]). Not printed: it follows from the masks.
    pub filled: Filled,
    /// The dtype in which kernels read it, where they convert it on the chip and nothing writes it.
    /// Not printed: it follows from what reads it.
    pub stored_as: Option<DType>,
    /// Whether it is a parameter that is not trained: it has no gradient and no optimizer state.
    pub is_frozen: bool,
    /// The declared sharding of an input, or the written brackets of a left side. `None`: the
    /// compiler's choice.
    pub declared_sharding: Option<Pin>,
    /// Its block: there is one of it for each layer and microbatch; for a declared value, one for
    /// each layer.
    pub repeat: Option<RepeatId>,
    /// Where it was declared or defined.
    pub span: Span,
}

impl Value {
    /// The result of an operation outside blocks, in no sharding that anyone wrote.
    pub fn result(name: String, dims: Vec<DimId>, dtype: DType, span: Span) -> Self {
        Self {
            name,
            dims,
            dtype,
            dtype_written: false,
            role: None,
            filled: Filled::WHOLE,
            stored_as: None,
            is_frozen: false,
            declared_sharding: None,
            repeat: None,
            span,
        }
    }
}

/// A use of a value by an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The value.
    pub value: ValueId,
    /// The brackets written at this use, if any.
    pub pin: Option<Pin>,
    /// Where.
    pub span: Span,
}

/// What an operation computes.
#[derive(Clone, Debug, PartialEq)]
pub enum OpKind {
    /// Two operands multiplied; same-named dimensions are one index; `contracted` ones are summed.
    Einsum {
        /// In the order written.
        contracted: Vec<DimId>,
    },
    /// Element-wise; operands may lack dimensions of the result (broadcast).
    Map(MapFn),
    /// Reduction of one operand over `dims`.
    Reduce {
        /// Which.
        function: ReduceFn,
        /// Over what.
        dims: Vec<DimId>,
    },
    /// `take_V(Table, Ids)`: the rows of a table along `dim` at the indices in the second operand;
    /// zeros for any other index.
    Gather {
        /// The dimension of the table that is looked up.
        dim: DimId,
    },
    /// `put_V(Rows, Ids, Like)`: rows added up at the indices in the second operand, in an array
    /// like the third, whose elements are not read: its sharding does not matter, and the result
    /// may be sharded along `dim` over any axes that rows and indices leave free. The transpose of
    /// `take`.
    ScatterAdd {
        /// The dimension of the indices.
        dim: DimId,
    },
    /// `update_S(Cache, At, Rows)`: the first array, with the rows along `dim` at the indices in
    /// the second replaced by those of the third; of rows with the same index the last one wins,
    /// rows with an index outside `dim` are dropped.
    Update {
        /// The dimension of the indices.
        dim: DimId,
    },
    /// A rearrangement of elements.
    Rearrange(Rearrange),
    /// `route_{T,E->C}(Scores, 2)`: the slot and expert that each token is sent to.
    Route(Route),
    /// `cumsum_S(x)`, `topk_{V->K}(x)`: a function of all elements along a dimension.
    Along(Along),
    /// `opaque<fft>_{T->F}(x)`: a function that the language does not have.
    Opaque(Opaque),
    /// Composites such as a softmax.
    Composite {
        /// Which.
        function: Composite,
        /// Along what.
        dims: Vec<DimId>,
    },
    /// A collective that the author wrote. Its operand's pin and its `result_pin` are exact; where
    /// its result is its operand's own value, it adds a materialisation of it.
    Collective(CollectiveKind),
}

/// A statement that computes or reshards.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// What.
    pub kind: OpKind,
    /// From what.
    pub operands: Vec<Operand>,
    /// Into what.
    pub result: ValueId,
    /// The brackets written on the left side of *this* statement (the value's declared sharding,
    /// unless the statement is a collective on its own value).
    pub result_pin: Option<Pin>,
    /// The part of the step it belongs to.
    pub phase: Phase,
    /// Its block.
    pub repeat: Option<RepeatId>,
    /// The share of its terms that is not masked. Not printed: it follows from the masks
    /// ([`crate::sparse`]).
    pub share: Share,
    /// Whether a `checkpoint` names its result: it is kept for gradients.
    pub is_kept: bool,
    /// Its place in its kernel. Only a kernel's number is printed; the rest follows from that.
    pub kernel: KernelPart,
    /// The statement.
    pub span: Span,
}

impl Value {
    /// Whether it is declared, and no operation produces it.
    pub fn is_declared(&self) -> bool {
        self.role.is_some()
    }

    /// Whether it has the name of a part of a statement, `Out.1`, or of a gradient's.
    pub fn is_part(&self) -> bool {
        let name = self.name.split('@').next();
        let number = name.and_then(|name| name.rsplit_once('.')).map(|(_, number)| number);
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Whether gradients are derived for it: a parameter with fractions that is not frozen.
    pub fn is_trained(&self) -> bool {
        self.role == Some(Role::Param) && self.dtype.is_float() && !self.is_frozen
    }
}

impl Op {
    /// Whether it reshards a value under the value's own name, as a written collective may: then it
    /// does not define its result.
    pub fn is_reshard(&self) -> bool {
        self.operands.iter().any(|operand| operand.value == self.result)
    }

    /// Whether it is a product that sums over something, and not element-wise.
    pub fn is_product(&self) -> bool {
        matches!(&self.kind, OpKind::Einsum { contracted } if !contracted.is_empty())
    }

    /// Whether its result has the bytes of its operand, under other names or dimensions.
    pub fn is_view(&self) -> bool {
        matches!(self.kind, OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_)))
    }

    /// Whether the elements of its operands matter, and not their dimensions alone.
    pub fn reads_elements(&self) -> bool {
        !self.is(&MapForm::call(Function::Ones))
    }

    /// Whether a device reads elements of its operands: positions are counted, not read.
    pub fn loads_operands(&self) -> bool {
        let is_position =
            matches!(self.kind, OpKind::Map(MapFn { form: MapForm::Position(_), .. }));
        self.reads_elements() && !is_position
    }

    /// Its operands without the array that a `put` only takes the dimensions of.
    pub fn sharded_operands(&self) -> &[Operand] {
        if matches!(self.kind, OpKind::ScatterAdd { .. }) {
            &self.operands[..self.operands.len().min(2)]
        } else {
            &self.operands
        }
    }

    /// The dimensions of its result that it computes from no operand: a device can compute any
    /// part of them.
    pub fn added_dims<'a>(&'a self, program: &'a Program) -> &'a [DimId] {
        match &self.kind {
            OpKind::Map(MapFn { form: MapForm::Broadcast(added), .. }) => added,
            _ if self.operands.is_empty() => &program.values[self.result].dims,
            _ => &[],
        }
    }

    /// Whether it is the element-wise function of this form.
    pub fn is(&self, form: &MapForm) -> bool {
        matches!(&self.kind, OpKind::Map(function) if function.form == *form)
    }
}

/// `backward from Out given dOut`, until the gradient pass replaces it with statements.
#[derive(Clone, Debug, PartialEq)]
pub struct Backward {
    /// What is differentiated.
    pub from: ValueId,
    /// Its gradient; `None`: all ones.
    pub given: Option<ValueId>,
    /// The operation that follows it.
    pub at: OpId,
    /// Values whose gradients the program names, and these gradients, which no operation produces
    /// yet.
    pub named: Vec<(ValueId, ValueId)>,
    /// The number of microbatches, and the dimension that they split.
    pub microbatches: Option<(u64, Option<DimId>)>,
    /// The dtype of the gradients of parameters; `None`: that of each parameter.
    pub gradients: Option<DType>,
    /// The statement.
    pub span: Span,
}

impl Backward {
    /// The dtype of the gradient of a value: its own, but at least 16 bits.
    pub fn dtype_of(&self, value: &Value) -> DType {
        let of_param = self.gradients.filter(|_| value.role == Some(Role::Param));
        let own = if value.dtype.is_narrow_float() { DType::Bf16 } else { value.dtype };
        of_param.unwrap_or(own)
    }
}

/// An output of the program or a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Which.
    pub value: ValueId,
    /// The shardings that it accepts.
    pub pin: Pin,
    /// Of a value that a block yields, the value whose sharding it must have: the result of a
    /// [`MapForm::LoopCarried`] in the next layer, or the parameter or state that it updates in
    /// the next step.
    pub yields_to: Option<ValueId>,
    /// Its declaration.
    pub span: Span,
}

/// What is limited by an `assert`.
#[derive(Clone, Debug, PartialEq)]
pub enum Budget {
    /// A time in seconds: `comm`, `serial`, `overlap`, `scheduled` or `compute`.
    TimeAtMost(String, f64),
    /// Peak bytes of a device.
    MemoryAtMost(f64),
    /// No such collective, over an axis, a kind of axis, or at all.
    No(CollectiveKind, Option<Over>),
    /// The value is never replicated.
    StaysSharded(ValueId),
}

/// What a forbidden collective would run over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// An axis: itself, or its parts.
    Axes(Vec<AxisId>),
    /// Any axis of a kind.
    Kind(AxisKind),
}

/// An `assert` and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Assert {
    /// What must hold.
    pub budget: Budget,
    /// As written, for printing.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// Whether the compiler may insert anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It may: shardings are propagated, collectives inserted.
    Ordinary,
    /// It may not: the program is a plan.
    Explicit,
}

/// A resolved program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Ordinary or explicit.
    pub mode: Mode,
    /// The chip.
    pub hardware: Hardware,
    /// Which operations run as one kernel.
    pub fusion: Fusion,
    /// Whether products run beside the collectives next to them.
    pub collectives: Collectives,
    /// The dtype of products with weights, until operands are converted to it.
    pub products: Products,
    /// The devices.
    pub mesh: Mesh,
    /// Dimensions in declaration order.
    pub dims: IndexVec<DimId, Dim>,
    /// Declared values, then results, each in order of appearance.
    pub values: IndexVec<ValueId, Value>,
    /// Operations in program order; an operand is always defined by an earlier one.
    pub ops: IndexVec<OpId, Op>,
    /// Blocks, in program order.
    pub repeats: IndexVec<RepeatId, Repeat>,
    /// Gradients that are still to be derived.
    pub backward: Option<Backward>,
    /// How long gradients of parameters are kept; `None`: the
    /// cost model says.
    pub gradients_until: Option<Until>,
    /// What happens to weights of layers that the forward part gathers; `None`: the cost model
    /// says.
    pub gathered_weights: Option<Weights>,
    /// Updates that are still to be written out.
    pub optimizer: Option<Optimizer>,
    /// Outputs, in order.
    pub outputs: Vec<Output>,
    /// Budgets.
    pub asserts: Vec<Assert>,
}

impl Program {
    /// Values that the program names elsewhere than in its operations: outputs, and what a
    /// `checkpoint`, an `assert`, `keep` or `backward` names.
    pub fn named_elsewhere(&self) -> IndexSet<ValueId> {
        let outputs = self.outputs.iter().flat_map(|of| [Some(of.value), of.yields_to]);
        let asserts = self.asserts.iter().map(|of| match of.budget {
            Budget::StaysSharded(value) => Some(value),
            _ => None,
        });
        let checkpoints = self.repeats.iter().flat_map(Repeat::named_values);
        let checkpoints = checkpoints.flat_map(|of| &of.values).copied();
        let gathered = self.repeats.iter().flat_map(|of| &of.kept_gathered).map(|of| of.value);
        let backward = self.backward.iter().flat_map(|of| {
            let named = of.named.iter().flat_map(|&(value, gradient)| [value, gradient]);
            named.chain([of.from]).chain(of.given)
        });
        let optional = outputs.chain(asserts).flatten();
        optional.chain(checkpoints).chain(gathered).chain(backward).collect()
    }

    /// The loop-carried value that an output of a block yields to, if any.
    pub fn carried_into(&self, output: &Output) -> Option<ValueId> {
        output.yields_to.filter(|&of| self.values[of].role.is_none())
    }

    /// The parameter or state that an output is in the next step, if it updates one.
    pub fn updates(&self, output: &Output) -> Option<ValueId> {
        output.yields_to.filter(|&of| self.values[of].role.is_some())
    }

    /// Whether an update is in place: its result replaces the array that it reads in the next step,
    /// and no later operation reads the old one. Otherwise the array is copied.
    pub fn is_in_place(&self, op: &Op) -> bool {
        let (OpKind::Update { .. }, Some(old)) =
            (&op.kind, op.operands.first().map(|operand| operand.value))
        else {
            return false;
        };
        let takes_its_place = self
            .outputs
            .iter()
            .any(|output| output.value == op.result && self.updates(output) == Some(old));
        let mut later = self.ops.iter().skip_while(|other| other.result != op.result).skip(1);
        takes_its_place
            && !later.any(|other| other.operands.iter().any(|operand| operand.value == old))
    }

    /// Whether a value updates a parameter or state.
    pub fn is_update(&self, value: ValueId) -> bool {
        self.outputs.iter().any(|output| output.value == value && self.updates(output).is_some())
    }
}
