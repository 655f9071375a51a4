//! The dtypes of products with weights, as a choice of the space.
//!
//! What people mean by "in fp8" differs between the two uses of a model, and so does the program
//! that a choice becomes:
//!
//! * with gradients, operands of the products of layers, going forward and back, are converted
//!   (`hardware h100, products=fp8`); parameters, their gradients and the state of the optimizer
//!   stay as they are declared;
//! * without gradients, weights of layers are also declared in the dtype: they were converted once,
//!   before serving. In `int8` and `int4` weights alone are, and products read them in the dtype of
//!   their activations.
//!
//! In both, embeddings, the head, norms, attention and caches stay as they are written. A choice
//! replaces the program's own `products=`, and the dtypes of its weights in layers.
//!
//! Alternatives: a dtype for each value, chosen by the search, would prefer the narrowest always,
//! since nothing in a plan prices accuracy; declaring parameters in fp8 in training rounds every
//! update; a `cast` around each operand in the text needs statements that the author did not write,
//! and does not reach the products of gradients (`ir/src/types/products.rs`).

use shardwise_ir::dtype::DType;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::products::Products;

use super::template::Template;
use super::{Refused, Request};

/// The dtype of products with weights of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtypes {
    /// As the program has it.
    Written,
    /// Weights and activations.
    Both(Products),
    /// Weights alone, of programs without gradients.
    Weights(DType),
}

impl Dtypes {
    /// What can be asked for.
    pub const CHOICES: [Self; 6] = [
        Self::Written,
        Self::Both(Products::Bf16),
        Self::Both(Products::Fp8),
        Self::Both(Products::Fp4),
        Self::Weights(DType::Int8),
        Self::Weights(DType::Int4),
    ];

    /// As tables print it and options name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => Products::Written.name(),
            Self::Both(products) => products.name(),
            Self::Weights(dtype) => dtype.name(),
        }
    }

    /// The choice of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::CHOICES.into_iter().find(|of| of.name() == name)
    }

    /// The setting of the chip; none where it is the program's.
    pub(super) fn products(self) -> Option<Products> {
        match self {
            Self::Written => None,
            Self::Both(products) => Some(products),
            Self::Weights(_) => Some(Products::Written),
        }
    }

    /// The dtype of weights without gradients; none where it is the program's.
    pub(super) fn of_weights(self) -> Option<DType> {
        match self {
            Self::Written => None,
            Self::Both(products) => products.dtype(),
            Self::Weights(dtype) => Some(dtype),
        }
    }

    /// Why a program on a chip cannot have these dtypes.
    fn fault(self, template: &Template<'_>, chip: &Hardware) -> Option<String> {
        let dtype = self.of_weights()?;
        let is_whole = matches!(self, Self::Weights(_));
        if !template.has_weights() {
            Some("the program multiplies no parameters".to_owned())
        } else if is_whole && template.has_gradients() {
            Some("gradients are fractions, which it has none of".to_owned())
        } else if !is_whole && !chip.multiplies(dtype) {
            Some(format!("{} has no units that multiply it", chip.name))
        } else {
            None
        }
    }
}

/// The choices that a program on a chip can have, and the others with the reason; an error where
/// none is left.
pub(super) fn possible(
    template: &Template<'_>,
    chip: &Hardware,
    request: &Request,
) -> Result<(Vec<Dtypes>, Vec<String>), Refused> {
    let (mut possible, mut left_out) = (Vec::new(), Vec::new());
    for &choice in &request.dtypes {
        match choice.fault(template, chip) {
            None if possible.contains(&choice) => {}
            None => possible.push(choice),
            Some(why) => left_out.push(format!("{} is left out: {why}", choice.name())),
        }
    }
    if possible.is_empty() {
        return Err(Refused::Options(format!(
            "--dtypes leaves nothing to plan: {}; write --dtypes written, or leave it out",
            left_out.join(", ")
        )));
    }
    Ok((possible, left_out))
}
