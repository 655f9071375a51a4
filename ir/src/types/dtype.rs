//! Element types and their sizes.

use serde::Serialize;

/// An element type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// One byte.
    Bool,
    /// Half a byte.
    Int4,
    /// One byte.
    Int8,
    /// Four bytes.
    Int32,
    /// Half a byte.
    Fp4,
    /// One byte.
    Fp8,
    /// Two bytes.
    F16,
    /// Two bytes; the default.
    #[default]
    Bf16,
    /// Four bytes.
    F32,
}

impl DType {
    /// Every dtype, in the order in which [`DType::promote`] prefers them.
    pub const ALL: [Self; 9] = [
        Self::Bool,
        Self::Int4,
        Self::Int8,
        Self::Int32,
        Self::Fp4,
        Self::Fp8,
        Self::F16,
        Self::Bf16,
        Self::F32,
    ];

    /// As the language spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int4 => "int4",
            Self::Int8 => "int8",
            Self::Int32 => "int32",
            Self::Fp4 => "fp4",
            Self::Fp8 => "fp8",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
        }
    }

    /// Whether its values have derivatives.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::Bf16 | Self::F16 | Self::Fp8 | Self::Fp4)
    }

    /// Whether it is a float of so few bits that sums need more.
    pub fn is_narrow_float(self) -> bool {
        matches!(self, Self::Fp8 | Self::Fp4)
    }

    /// The dtype spelled `name`, also in the book's spellings `fp32` and `fp16`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name {
            "fp32" => "f32",
            "fp16" => "f16",
            other => other,
        };
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bits an element takes in memory (4 for `int4` and `fp4`).
    pub fn bits(self) -> u32 {
        match self {
            Self::Int4 | Self::Fp4 => 4,
            Self::Bool | Self::Int8 | Self::Fp8 => 8,
            Self::F16 | Self::Bf16 => 16,
            Self::Int32 | Self::F32 => 32,
        }
    }

    /// The dtype of an operation on both: floats before integers, then the wider one.
    #[must_use]
    pub fn promote(self, other: Self) -> Self {
        self.max(other)
    }
}
