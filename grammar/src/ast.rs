//! The syntax tree: the parsed text with spans, without meaning.
//!
//! A statement that could not be parsed is missing from the tree (its errors are in the list beside
//! it), and so is an item of a list of declarations, so every node here is complete. The names that
//! missing statements would have defined are kept separately. Sizes are kept as expressions and
//! names as text; `ir` resolves them.

mod backward;
mod roles;
mod size;

use crate::span::{Name, Span, Spanned};

pub use backward::{Backward, Keeps, Phase, Until, Weights};
pub use roles::Role;
pub use size::{SizeExpr, SizeFactor, SizePart, SizeTerm};

/// A whole file: statements in order; the formatter finds comments and blank lines in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Statements in source order.
    pub statements: Vec<Spanned<Statement>>,
    /// The names that missing statements would have defined.
    pub lost: Lost,
}

/// Definitions that could not be parsed, as far as other statements refer to them; empty without
/// syntax errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Values and dimensions that would have been declared or defined.
    pub names: Vec<String>,
    /// Whether a part of the mesh is missing.
    pub mesh: bool,
    /// Whether the hardware is.
    pub hardware: bool,
    /// Whether what is differentiated is.
    pub backward: bool,
}

/// One statement (`input A[I], B[J]` is one).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `plan`: the program is explicit.
    Plan,
    /// `hardware tpu-v5p`.
    Hardware(HardwareRef),
    /// `mesh X=16 over 4x4, Y=4 line`.
    Mesh(Vec<AxisDecl>),
    /// `dim B=4096, F=4*D, N=K*G, T=1000 pad`.
    Dim(Vec<DimDecl>),
    /// `input In: bf16[B_X, D]`, `param …`, `state …`, `output …` without a right side.
    Declare(Role, Vec<TensorDecl>),
    /// `C[I, K] = A *J B`, also `output C[I, K] = …` and `A -> C[I]` (a chain with an arrow).
    Define(Definition),
    /// A limit that a plan must meet, such as `assert comm <= 2ms`.
    Assert(Assertion),
    /// `allow SW301` on a line of its own or before a statement.
    Allow(Vec<Name>),
    /// `backward from Out given dOut`.
    Backward(Backward),
    /// `phase backward, until=step`: the statements after it belong to that part of a training
    /// step; gradients of parameters are kept so long.
    Phase(Phase, Keeps),
    /// `repeat L=40 {`, `repeat L reversed {`: the statements up to its `}` run once per layer.
    Repeat(Repeat),
    /// `scan T in C {`: the statements up to its `}` run once per chunk of a dimension.
    Scan(Scan),
    /// `microbatches B=B'*8 {`: the statements up to its `}` run once per microbatch.
    Microbatches(Microbatches),
    /// `pipeline Z, microbatches=8 {`: the layers in it are placed on stages along a mesh axis.
    Pipeline(Pipeline),
    /// `stage head {`: in a pipeline, the statements up to its `}` run once, on the stage of the
    /// layers next to them.
    Stage(Stage),
    /// `}`
    Close,
    /// `carry x, y`: the values of these names at the end of the body are those at the start of the
    /// next layer.
    Carry(Vec<TensorDecl>),
    /// `carry x.in = x`: the right side is the value in the first layer; `carry x = h + y` also
    /// defines the one of the next layer.
    Enter(Definition),
    /// `next x.in = y`: the value at the start of the next layer.
    Next(Definition),
    /// `checkpoint h, q`: of a block only these values and the carried ones are kept for gradients;
    /// the others are rematerialised.
    /// `checkpoint keep products` and `checkpoint only attention` name kinds of values, too, and
    /// `checkpoint offload q` what waits in the host's memory.
    Checkpoint {
        /// `keep`, `only` or `offload`, if written.
        how: Option<Name>,
        /// The names.
        names: Vec<Name>,
    },
    /// `hold Win[D, F]`: the gathered parameter of a layer is kept for all microbatches of a step.
    Hold(Vec<TensorDecl>),
    /// `optimizer adam over X, moments=f32`: the parameters that have gradients are updated.
    Optimizer(Optimizer),
}

/// `tpu-v5p`, `"cluster.toml"`, `my-chip from "cluster.toml"`: a name, a file, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardwareRef {
    /// The chip's name; without one, the file describes a single chip.
    pub name: Option<Name>,
    /// The path as written, without its quotes; the span has them.
    pub file: Option<Name>,
    /// `rates=measured`.
    pub settings: Vec<Setting>,
}

/// `X=16 over 4x4 ring`, `X=16 as 8x2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisDecl {
    /// The axis.
    pub name: Name,
    /// The number of devices along it.
    pub size: SizeExpr,
    /// `ring`, `line`, `switch` or `dcn`, as written (checked by `ir`).
    pub options: Vec<Name>,
    /// `over 4x4` gives `[4, 4]`; `over 2` gives `[2]` (that many equal factors).
    pub over: Option<Spanned<Vec<u64>>>,
    /// `as 8x2` gives `[8, 2]`: the sizes of its parts, major to minor.
    pub parts: Option<Spanned<Vec<u64>>>,
}

/// `F=4*D pad`, `T=128k zigzag 8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimDecl {
    /// The dimension.
    pub name: Name,
    /// Its size.
    pub size: SizeExpr,
    /// Whether it may be padded to a multiple of the axes that split it.
    pub pad: Option<Span>,
    /// `zigzag 8`: the number of pairs of blocks of its order, and where that is written.
    pub zigzag: Option<Spanned<SizeExpr>>,
}

/// `In: bf16[B_X, D] {U_Y}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorDecl {
    /// The value's name.
    pub name: Name,
    /// `bf16`, if written.
    pub dtype: Option<Name>,
    /// The brackets, if written.
    pub layout: Option<Layout>,
    /// All of it.
    pub span: Span,
}

impl Statement {
    /// Whether the statements up to its `}` are inside it.
    pub fn opens_block(&self) -> bool {
        matches!(
            self,
            Self::Repeat(_)
                | Self::Scan(_)
                | Self::Microbatches(_)
                | Self::Pipeline(_)
                | Self::Stage(_)
        )
    }
}

impl TensorDecl {
    /// One that nothing is known of yet.
    pub(crate) fn nameless(span: Span) -> Self {
        Self { name: Spanned::new(String::new(), span), dtype: None, layout: None, span }
    }
}

/// `[B_X, D_{Y,Z}, F_?] {U_W}`: dimensions with their subscripts, and what is unreduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The dimensions in order.
    pub dims: Vec<DimUse>,
    /// `{U_X}`, `{max_X}`; several groups may be written.
    pub unreduced: Vec<UnreducedUse>,
    /// From `[` to the last bracket or brace.
    pub span: Span,
}

/// `B_X`, `D_{data,model}`, `F_?`, `D`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimUse {
    /// The dimension.
    pub name: Name,
    /// The axes that split it.
    pub subscript: Subscript,
    /// All of it.
    pub span: Span,
}

/// The subscript after the `_` of a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscript {
    /// None: the dimension is unsharded.
    Whole,
    /// `_?`: open.
    Open,
    /// `_{X,?}`: these axes first, more of them open.
    First(Vec<Name>),
    /// `_X`, `_XY` (one word, to be split by `ir` into declared axes) or `_{X,Y}` (several words).
    Axes(Vec<Name>),
}

impl Subscript {
    /// The axes that are written.
    pub fn axes(&self) -> &[Name] {
        match self {
            Self::First(axes) | Self::Axes(axes) => axes,
            Self::Whole | Self::Open => &[],
        }
    }
}

/// `{U_XY}`, `{U.X}`, `{max_X}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreducedUse {
    /// `U`, `sum`, `max` or `min`, as written (`U` and `sum` are the same).
    pub kind: Name,
    /// The axes, as in [`Subscript::Axes`].
    pub axes: Vec<Name>,
    /// With its braces.
    pub span: Span,
}

/// `output Tmp: f32[B_X, F] = In *D Win`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Whether `output` stood before it.
    pub output: bool,
    /// The defined value.
    pub target: TensorDecl,
    /// Those after it: `q, k, v = split_{N->A,B,C}(x)`.
    pub others: Vec<TensorDecl>,
    /// The right side.
    pub value: Expr,
    /// `in k1`: the number of the kernel that the statement of a plan is part of.
    pub kernel: Option<Spanned<u32>>,
}

impl Definition {
    /// All defined values.
    pub fn targets(&self) -> impl Iterator<Item = &TensorDecl> {
        std::iter::once(&self.target).chain(&self.others)
    }
}

/// `microbatches B=B'*8 {`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Microbatches {
    /// The dimension that is split.
    pub whole: Name,
    /// The dimension of a microbatch.
    pub part: Name,
    /// The number of microbatches.
    pub count: SizeExpr,
}

/// `optimizer adam over X, moments=f32, rate=1e-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimizer {
    /// `adam`, `sgd`.
    pub name: Name,
    /// The axes that shard its state in addition to those of the parameter, if written.
    pub over: Option<StateOver>,
    /// In the order written.
    pub settings: Vec<Setting>,
}

/// The text after the `over` of an optimizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateOver {
    /// `_?`: open.
    Open,
    /// `X`, `{X,Y}`: words as in [`Subscript::Axes`].
    Axes(Vec<Name>),
}

/// `rate=1e-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `rate`.
    pub name: Name,
    /// `1e-3`.
    pub value: Name,
}

/// `repeat L=40 {`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The name of the layers.
    pub name: Name,
    /// Their number; `None` for the reverse of an earlier block.
    pub count: Option<SizeExpr>,
}

/// `scan T in C {`, `scan T {`, `scan T reversed {`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The dimension that is read step by step, or the name of the block that is reversed.
    pub dim: Name,
    /// The dimension of a chunk; `None`: one element a step.
    pub chunk: Option<Name>,
    /// Whether it goes over the steps of an earlier block from the last to the first.
    pub is_reversed: bool,
}

/// `pipeline Z, microbatches=8 of B, schedule=1f1b {`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The mesh axis of the stages.
    pub axis: Name,
    /// The number of microbatches.
    pub microbatches: Option<SizeExpr>,
    /// The batch dimension.
    pub batch: Option<Name>,
    /// Other options and what they are set to.
    pub options: Vec<(Name, Name)>,
    /// `pipeline Z reversed {`: it goes over the stages of an earlier pipeline from the last to the
    /// first.
    pub is_reversed: bool,
}

/// `stage head {`, `stage head reversed {`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name.
    pub name: Name,
    /// Whether it is the reverse of an earlier one.
    pub is_reversed: bool,
}

/// An expression with its span.
pub type Expr = Spanned<ExprKind>;

/// The kind of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// `In`, `In[B_X, D] {U_Y}`.
    Tensor {
        /// The value.
        name: Name,
        /// Its brackets, if written.
        layout: Option<Layout>,
    },
    /// `2.0`, kept as written.
    Number(String),
    /// `a *D b`, `a * b`, `a · b`: `contracted` is `None` where no suffix was written.
    Product {
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
        /// The suffix's dimensions, if there is one.
        contracted: Option<Spanned<Vec<Name>>>,
    },
    /// `a + b`, `a - b`, `a / b`, `a <= b`.
    Binary {
        /// `+`, `-`, `/` or a comparison.
        op: BinaryOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `-x`.
    Negate(Box<Expr>),
    /// `gelu(x)`, `sum_D(x)`, `AllGather_{XY}(x)`, `AllToAll_{X->J}(x)`, `cast<f32>(x)`,
    /// `take_V(E, Ids)`.
    Call(Call),
}

/// The element-wise operators that are not products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `/`
    Div,
    /// Comparisons such as `<=`, whose result is a mask.
    Compare(Comparison),
}

/// A comparison, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`, `≤`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`, `≥`
    GreaterEqual,
    /// `==`
    Equal,
    /// `!=`, `≠`
    NotEqual,
}

impl Comparison {
    /// The comparison written `symbol`.
    pub fn of(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "<" => Self::Less,
            "<=" | "≤" => Self::LessEqual,
            ">" => Self::Greater,
            ">=" | "≥" => Self::GreaterEqual,
            "==" => Self::Equal,
            "!=" | "≠" => Self::NotEqual,
            _ => return None,
        })
    }

    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
        }
    }

    /// The function of the comparison.
    pub fn function(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::LessEqual => "less_equal",
            Self::Greater => "greater",
            Self::GreaterEqual => "greater_equal",
            Self::Equal => "equal",
            Self::NotEqual => "not_equal",
        }
    }

    /// The equivalent comparison with the operands swapped.
    #[must_use]
    pub fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            Self::Equal | Self::NotEqual => self,
        }
    }
}

/// A function or collective applied to its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `gelu`, `sum`, `AllGather` (the text before the first `_`).
    pub function: Name,
    /// `cast<f32>`.
    pub generic: Option<Name>,
    /// The text after the `_`: `D`, `{X,K}`, `{X->J}`; the words in order.
    pub subscript: Option<Spanned<Vec<Name>>>,
    /// How many words of the subscript stand before its arrow; 0 without one, and of collectives.
    pub before_arrow: usize,
    /// Of a collective with several arrows (`{X->J,Y->K}`): the places of the words after them.
    pub receivers: Vec<usize>,
    /// The arguments.
    pub arguments: Vec<Expr>,
    /// `window=1024`: options and what they are set to.
    pub options: Vec<(Name, Name)>,
}

/// `assert comm <= 2ms`, `assert no AllGather over dcn`, `assert Win stays sharded`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assertion {
    /// `comm <= 2ms`, `memory <= 16GB`: the limited quantity, and the limit in seconds or bytes.
    AtMost {
        /// `comm`, `serial`, `overlap`, `scheduled`, `compute`, `memory`, as written.
        quantity: Name,
        /// The number as written, without its unit.
        number: Name,
        /// `ms`, `us`, `s`, `ns`, `B`, `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB`, `GiB`; as written,
        /// maybe empty.
        unit: Name,
    },
    /// `no AllGather over dcn`, `no AllReduce over X`, `no AllToAll`.
    No {
        /// The collective, as written.
        collective: Name,
        /// An axis or a kind of axis.
        over: Option<Name>,
    },
    /// `Win stays sharded`.
    StaysSharded(Name),
}
