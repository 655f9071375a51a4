//! The dtype in which products with weights of layers are computed.
//!
//! Frameworks train and serve in a narrow dtype without changing the model: parameters, activations
//! and state keep their dtypes, and the operands of the large products are converted on the way in
//! (Transformer Engine, torchao's `float8`, `MaxText`'s `quantization`, and TF32 on GPUs, which a
//! chip applies by itself). So it is a setting of how the program runs, beside `rates` and
//! `fusion`, and the pass `products` writes the conversions out.
//!
//! Alternatives: to write `cast<fp8>(x)` at every operand needs a statement of its own for each
//! product, whose result would else be in fp8, and leaves the gradients' products as wide as their
//! incoming gradients; to declare parameters in fp8 rounds them at every update.

use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::dtype::DType;

/// The dtype in which products with weights of layers read their operands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Products {
    /// That of the operands.
    #[default]
    Written,
    /// 16 bits, where operands have more.
    Bf16,
    /// 8 bits.
    Fp8,
    /// 4 bits.
    Fp4,
}

impl Products {
    /// As options write it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The dtype; none where it is that of the operands.
    pub fn dtype(self) -> Option<DType> {
        match self {
            Self::Written => None,
            Self::Bf16 => Some(DType::Bf16),
            Self::Fp8 => Some(DType::Fp8),
            Self::Fp4 => Some(DType::Fp4),
        }
    }
}
