//! `optimizer adam over X`: how parameters that have gradients are updated, until a pass replaces
//! the statement with updates.
//!
//! An optimizer consists of a few element-wise functions of the language, one for each array that
//! it updates, each of which reads and writes every element once, as fused optimizer kernels do.
//! Written as sums and products, each of these would cost a pass over memory and a copy of the
//! array. Its numbers are kept as text, since they are printed and never compared.

use crate::Span;
use crate::dtype::DType;
use crate::sharding::AxisList;

/// `optimizer adam over X, moments=f32`.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    /// How a parameter is updated.
    pub rule: Rule,
    /// The step size of row-wise Adagrad, by which tables whose rows are looked up are updated;
    /// `None`: by the rule, as all others. As written.
    pub tables: Option<String>,
    /// The dtype of moments and momentum.
    pub moments: DType,
    /// The dtype of the copy of each parameter that is updated in its place, if there is one.
    pub master: Option<DType>,
    /// The axes that shard the state.
    pub over: StateOver,
    /// As written, for printing.
    pub text: String,
    /// Its span.
    pub span: Span,
}

/// How a parameter is updated. Numbers are as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Two moments.
    Adam {
        /// The decay rates of both moments.
        betas: [String; 2],
        /// Step size, epsilon and weight decay.
        step: [String; 3],
    },
    /// The gradient itself, or its sum.
    Sgd {
        /// Step size.
        rate: String,
        /// The momentum; `None`: without.
        momentum: Option<String>,
    },
    /// The momentum of a matrix, with its singular values brought to about one.
    Muon {
        /// Step size.
        rate: String,
        /// The momentum.
        momentum: String,
        /// The rule for what is no matrix, and for tables.
        others: Box<Rule>,
    },
}

/// The axes that shard the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateOver {
    /// The axes of its parameter.
    Parameter,
    /// These axes too, in the largest dimension that they divide.
    Axes(AxisList),
    /// The search chooses.
    Open,
}
