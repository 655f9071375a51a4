//! What each step does, with every constant: enough to run it without reading its text.
//!
//! Dimensions and axes go by name, as in the rest of the document. Element-wise operations are one
//! kind, `map`, with their operands and numbers in one list: an interpreter then needs one table of
//! functions and no rules for infix forms. What passes values into blocks and out of them, and what
//! rearranges elements, has a kind of its own each, since each is executed in its own way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shardwise_ir::functions::{Arithmetic, Composite, EPSILON};
use shardwise_ir::ids::DimId;
use shardwise_ir::plan::{Collective, Step, StepKind};
use shardwise_ir::program::{CollectiveKind, Fill, MapForm, Op, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Regroup, Window, Windows};
use strum::IntoStaticStr;

/// What a step computes or communicates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Operation {
    /// The product of two operands; dimensions of one name are one index, `contracted` ones are
    /// summed over.
    Einsum {
        /// In the order written.
        contracted: Vec<String>,
    },
    /// An element-wise function; operands may lack dimensions of the result.
    Map {
        /// `add`, `sub`, `mul`, `div`, `neg`, `offload`, `reload`, or the name of a function of the
        /// language.
        function: String,
        /// In order.
        arguments: Vec<Argument>,
    },
    /// A conversion to another element type.
    Cast {
        /// The type.
        dtype: String,
    },
    /// The operand repeated along dimensions that it lacks.
    Broadcast {
        /// These.
        dims: Vec<String>,
    },
    /// One number everywhere.
    Constant {
        /// As written.
        number: String,
    },
    /// The indices along a dimension.
    Iota {
        /// Which.
        dim: String,
    },
    /// The index of each element of the operand along a dimension.
    Position {
        /// Which.
        dim: String,
    },
    /// The operand, with `fill` where the index along `key` is above that along `query`.
    Mask {
        /// The dimension of the queries.
        query: String,
        /// The dimension of the keys.
        key: String,
        /// `-inf` or `0`.
        fill: String,
    },
    /// A loop-carried value: the operand in the first iteration, then the value that the block
    /// yields to the result.
    Carry,
    /// The value of a block's last iteration.
    Last,
    /// The sum of a value over all iterations of its block.
    Total,
    /// A reduction of one operand.
    Reduce {
        /// `sum`, `mean`, `max` or `min`. A mean divides by the sizes of the complete dimensions.
        function: String,
        /// Over these dimensions.
        dims: Vec<String>,
    },
    /// A function of several passes over dimensions that are complete on every device.
    Composite {
        /// `softmax`, `logsumexp`, `layernorm` or `rmsnorm`.
        function: String,
        /// Along these dimensions.
        dims: Vec<String>,
        /// What a normalisation adds to the variance.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        epsilon: Option<f64>,
    },
    /// The rows of the first operand at the indices in the second; zeros for other indices.
    Take {
        /// The dimension of the indices.
        dim: String,
    },
    /// Rows added up at the indices in the second operand, in an array with the dimensions of the
    /// result.
    Put {
        /// The dimension of the indices.
        dim: String,
    },
    /// The first operand, its rows at the indices in the second replaced by those of the third in
    /// order; rows at other indices are dropped.
    Update {
        /// The dimension of the indices.
        dim: String,
    },
    /// Dimensions under other names of equal size.
    Rename {
        /// Old and new.
        pairs: Vec<(String, String)>,
    },
    /// Dimensions split into factors or merged into a product.
    Reshape {
        /// Each group of dimensions and what it becomes, major to minor.
        groups: Vec<(Vec<String>, Vec<String>)>,
    },
    /// The part of a dimension that begins at `start` (`slice` in programs).
    Window {
        /// The operand's dimension.
        from: String,
        /// The result's.
        to: String,
        /// Where the part begins.
        start: u64,
    },
    /// The inverse of a window, with zeros around it.
    Pad {
        /// The operand's dimension.
        from: String,
        /// The result's.
        to: String,
        /// Where the operand begins.
        start: u64,
    },
    /// Operands one after the other.
    Concat {
        /// The dimension of each operand.
        from: Vec<String>,
        /// That of the result.
        to: String,
    },
    /// Elements so many places further along, cyclically. Where the dimension is sharded, devices
    /// send to each other: the step then has axes.
    Roll {
        /// Which dimension.
        dim: String,
        /// How far.
        distance: u64,
    },
    /// Windows of a dimension: element `r` of the window at place `p` is that at
    /// `p * stride + r - padding`, and zero where there is none. Where the dimension is sharded,
    /// devices send to their neighbours: the step then has axes.
    Windows {
        /// The operand's dimension.
        from: String,
        /// The dimension of the places.
        to: String,
        /// The dimension of a window.
        kernel: String,
        /// The distance between places.
        stride: u64,
        /// How far the first window begins before the first element.
        padding: u64,
    },
    /// The transpose of windows: these added up at the elements that they are of.
    Overlap {
        /// The dimension of the places.
        from: String,
        /// The result's dimension.
        to: String,
        /// The dimension of a window.
        kernel: String,
        /// The distance between places.
        stride: u64,
        /// How far the first window begins before the first element.
        padding: u64,
    },
    /// The rows of a microbatch: every n-th row, from the number of the microbatch on, where n is
    /// the number of microbatches.
    Part {
        /// The batch.
        from: String,
        /// The dimension of a microbatch.
        to: String,
    },
    /// The rows of all microbatches in the order of the batch.
    Join {
        /// The dimension of a microbatch.
        from: String,
        /// The batch.
        to: String,
    },
    /// What a step of a scan reads: the chunk of its number, or its element.
    Chunk {
        /// The dimension.
        from: String,
        /// That of a chunk; absent where a step reads one element.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        to: Option<String>,
    },
    /// The values of all steps of a scan in order.
    Stack {
        /// The dimension of a chunk; absent where values lack the dimension.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        from: Option<String>,
        /// The dimension of all.
        to: String,
    },
    /// A function of all elements along a dimension.
    Along {
        /// `cumsum`, `revcumsum`, `topk` or `argtopk`.
        function: String,
        /// The operand's dimension.
        from: String,
        /// The result's.
        to: String,
    },
    /// A function that the language does not have, of whole dimensions; along the others it is
    /// computed apart for each element.
    Opaque {
        /// Its author's name for it.
        function: String,
        /// The dimensions that it needs whole.
        from: Vec<String>,
        /// Those that the result has in their place.
        to: Vec<String>,
    },
    /// Tokens sent to the experts with their largest scores, in order, as long as there are slots:
    /// one where a token has a slot, else zero.
    Route {
        /// The dimension of the tokens.
        tokens: String,
        /// The experts.
        experts: String,
        /// The slots of an expert.
        capacity: String,
        /// The experts of a token.
        choices: u64,
        /// How many times the mean of all devices the busiest one has; absent where all are alike.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        busiest: Option<f64>,
    },
    /// Drops axes from the ends of dimensions.
    AllGather {
        /// These.
        axes: Vec<String>,
    },
    /// Reduces pending axes.
    AllReduce {
        /// These.
        axes: Vec<String>,
        /// `sum`, `max` or `min`.
        reduction: String,
    },
    /// Reduces pending axes and appends each to a dimension.
    ReduceScatter {
        /// These.
        axes: Vec<String>,
        /// The dimension of each.
        into: Vec<String>,
        /// `sum`, `max` or `min`.
        reduction: String,
    },
    /// Moves axes from the ends of dimensions to the ends of others.
    AllToAll {
        /// These.
        axes: Vec<String>,
        /// The dimension that receives each.
        into: Vec<String>,
    },
    /// Every device sends its block to the device that has it in the sharding of the result.
    Permute {
        /// The axes taking part.
        axes: Vec<String>,
    },
    /// The first device along the axes keeps the value, the others have zeros: a sum is pending.
    Unreduce {
        /// The axes over which the sum is pending.
        axes: Vec<String>,
    },
    /// Every device keeps its part of what it has.
    Slice {
        /// The axes that are appended.
        axes: Vec<String>,
        /// The dimension of each.
        into: Vec<String>,
    },
}

/// An argument of an element-wise function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// The operand of this number, from 0 on.
    Operand(usize),
    /// A number as written; `inf` is one.
    Number(String),
}

impl Operation {
    /// Its `kind`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// What a step does.
    pub(crate) fn of(program: &Program, step: &Step) -> Self {
        let names = Names(program);
        match &step.kind {
            StepKind::Local(op) => names.local(&program.ops[*op]),
            StepKind::Collective(collective, _) => names.collective(collective, step),
        }
    }
}

/// Names of dimensions and axes.
struct Names<'p>(&'p Program);

impl Names<'_> {
    fn dim(&self, dim: DimId) -> String {
        self.0.dims[dim].name.clone()
    }

    fn dims(&self, dims: &[DimId]) -> Vec<String> {
        dims.iter().map(|&dim| self.dim(dim)).collect()
    }

    fn local(&self, op: &Op) -> Operation {
        match &op.kind {
            OpKind::Einsum { contracted } => {
                Operation::Einsum { contracted: self.dims(contracted) }
            }
            OpKind::Map(function) => self.map(&function.form, op.operands.len()),
            OpKind::Reduce { function, dims } => {
                Operation::Reduce { function: function.name().to_owned(), dims: self.dims(dims) }
            }
            OpKind::Composite { function, dims } => self.composite(*function, dims),
            OpKind::Gather { dim } => Operation::Take { dim: self.dim(*dim) },
            OpKind::ScatterAdd { dim } => Operation::Put { dim: self.dim(*dim) },
            OpKind::Update { dim } => Operation::Update { dim: self.dim(*dim) },
            OpKind::Rearrange(how) => self.rearrange(how),
            OpKind::Along(along) => Operation::Along {
                function: along.function.name().to_owned(),
                from: self.dim(along.from),
                to: self.dim(along.to),
            },
            OpKind::Opaque(opaque) => Operation::Opaque {
                function: opaque.name.clone(),
                from: self.dims(&opaque.from),
                to: self.dims(&opaque.to),
            },
            OpKind::Route(route) => Operation::Route {
                tokens: self.dim(route.tokens),
                experts: self.dim(route.experts),
                capacity: self.dim(route.capacity),
                choices: route.choices,
                busiest: route.stated_imbalance(),
            },
            // Always a collective step: what an author wrote is resolved to its axes.
            OpKind::Collective(_) => call("copy", vec![Argument::Operand(0)]),
        }
    }

    fn map(&self, form: &MapForm, operands: usize) -> Operation {
        let all = || (0..operands).map(Argument::Operand);
        let number = |text: &String| Argument::Number(text.clone());
        match form {
            MapForm::Call { function, numbers } => {
                call(function.name(), all().chain(numbers.iter().map(number)).collect())
            }
            MapForm::Infix(how) => call(infix(*how), all().collect()),
            MapForm::ScaleBy(scalar) => call("mul", vec![number(scalar), Argument::Operand(0)]),
            MapForm::InfixScalar(how, scalar) => {
                call(infix(*how), vec![Argument::Operand(0), number(scalar)])
            }
            MapForm::ScalarInfix(scalar, how) => {
                call(infix(*how), vec![number(scalar), Argument::Operand(0)])
            }
            MapForm::Negate => call("neg", all().collect()),
            MapForm::Host(transfer) => call(transfer.name(), all().collect()),
            MapForm::Cast(dtype) => Operation::Cast { dtype: dtype.name().to_owned() },
            MapForm::LoopCarried => Operation::Carry,
            MapForm::Last => Operation::Last,
            MapForm::Total => Operation::Total,
            MapForm::Broadcast(dims) => Operation::Broadcast { dims: self.dims(dims) },
            MapForm::Constant { number, .. } => Operation::Constant { number: number.clone() },
            MapForm::Iota(dim) => Operation::Iota { dim: self.dim(*dim) },
            MapForm::Position(dim) => Operation::Position { dim: self.dim(*dim) },
            MapForm::Causal { query, key, fill } => Operation::Mask {
                query: self.dim(*query),
                key: self.dim(*key),
                fill: if *fill == Fill::Infinite { "-inf" } else { "0" }.to_owned(),
            },
        }
    }

    fn composite(&self, function: Composite, dims: &[DimId]) -> Operation {
        let is_norm = matches!(function, Composite::LayerNorm | Composite::RmsNorm);
        Operation::Composite {
            function: function.name().to_owned(),
            dims: self.dims(dims),
            epsilon: EPSILON.parse().ok().filter(|_| is_norm),
        }
    }

    fn rearrange(&self, how: &Rearrange) -> Operation {
        let group = |group: &Regroup| (self.dims(&group.from), self.dims(&group.to));
        match how {
            Rearrange::Rename(pairs) => Operation::Rename {
                pairs: pairs.iter().map(|&(old, new)| (self.dim(old), self.dim(new))).collect(),
            },
            Rearrange::Reshape(groups) => {
                Operation::Reshape { groups: groups.iter().map(group).collect() }
            }
            Rearrange::Slice(Window { from, to, start }) => {
                Operation::Window { from: self.dim(*from), to: self.dim(*to), start: *start }
            }
            Rearrange::Pad(Window { from, to, start }) => {
                Operation::Pad { from: self.dim(*from), to: self.dim(*to), start: *start }
            }
            Rearrange::Concat { from, to } => {
                Operation::Concat { from: self.dims(from), to: self.dim(*to) }
            }
            Rearrange::Roll(roll) => Operation::Roll { dim: self.dim(roll.dim), distance: roll.by },
            Rearrange::Windows(Windows { whole, places, kernel, stride, padding }) => {
                Operation::Windows {
                    from: self.dim(*whole),
                    to: self.dim(*places),
                    kernel: self.dim(*kernel),
                    stride: *stride,
                    padding: *padding,
                }
            }
            Rearrange::Overlap(Windows { whole, places, kernel, stride, padding }) => {
                Operation::Overlap {
                    from: self.dim(*places),
                    to: self.dim(*whole),
                    kernel: self.dim(*kernel),
                    stride: *stride,
                    padding: *padding,
                }
            }
            Rearrange::Part { from, to, .. } => {
                Operation::Part { from: self.dim(*from), to: self.dim(*to) }
            }
            Rearrange::Join { from, to } => {
                Operation::Join { from: self.dim(*from), to: self.dim(*to) }
            }
            Rearrange::Chunk { from, to, .. } => {
                Operation::Chunk { from: self.dim(*from), to: to.map(|to| self.dim(to)) }
            }
            Rearrange::Stack { from, to } => {
                Operation::Stack { from: from.map(|from| self.dim(from)), to: self.dim(*to) }
            }
        }
    }

    fn collective(&self, of: &Collective, step: &Step) -> Operation {
        let program = self.0;
        let axes = super::names(program, &of.axes);
        let dims = &program.values[step.result.value].dims;
        let into = of.into.iter().filter_map(|&place| Some(self.dim(*dims.get(place)?))).collect();
        let reduction = || super::reduction(step.operands[0].sharding.unreduced.kind()).to_owned();
        match of.kind {
            CollectiveKind::AllGather => Operation::AllGather { axes },
            CollectiveKind::AllReduce => Operation::AllReduce { axes, reduction: reduction() },
            CollectiveKind::ReduceScatter => {
                Operation::ReduceScatter { axes, into, reduction: reduction() }
            }
            CollectiveKind::AllToAll => Operation::AllToAll { axes, into },
            CollectiveKind::Permute => Operation::Permute { axes },
            CollectiveKind::Slice => Operation::Slice { axes, into },
            CollectiveKind::Unreduce => Operation::Unreduce { axes },
        }
    }
}

fn call(function: &str, arguments: Vec<Argument>) -> Operation {
    Operation::Map { function: function.to_owned(), arguments }
}

fn infix(how: Arithmetic) -> &'static str {
    match how {
        Arithmetic::Add => "add",
        Arithmetic::Sub => "sub",
        Arithmetic::Div => "div",
    }
}
