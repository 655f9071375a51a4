//! Values of `StableHLO` and their types.

use shardwise_ir::dtype::DType;

/// A value: its name, and its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    /// With its `%`.
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) dtype: DType,
}

impl Array {
    /// `tensor<8x16xf32>`.
    pub(super) fn ty(&self) -> String {
        tensor(&self.shape, self.dtype)
    }

    /// The number of its dimensions.
    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }
}

/// `tensor<8x16xf32>`.
pub(super) fn tensor(shape: &[u64], dtype: DType) -> String {
    let sizes = shape.iter().map(ToString::to_string);
    let parts: Vec<String> = sizes.chain([element(dtype).to_owned()]).collect();
    format!("tensor<{}>", parts.join("x"))
}

/// The name of a type in MLIR.
pub(super) fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "i1",
        DType::Int4 => "i4",
        DType::Int8 => "i8",
        DType::Int32 => "i32",
        DType::Fp4 => "f4E2M1FN",
        DType::Fp8 => "f8E4M3FN",
        DType::F16 => "f16",
        DType::Bf16 => "bf16",
        DType::F32 => "f32",
    }
}

/// A number as an element: fractions with a point, infinities by their bits.
pub(super) fn literal(number: f64, dtype: DType) -> String {
    if dtype == DType::Bool {
        // The least and the largest of the two, where a reduction begins with an infinity.
        return (number != 0.0 && number != f64::NEG_INFINITY).to_string();
    }
    if !dtype.is_float() {
        let [least, most] = limits(dtype);
        return format!("{}", number.clamp(least, most));
    }
    if number.is_finite() {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let point = if digits.contains('.') { "" } else { ".0" };
        return format!("{digits}{point}e{exponent}");
    }
    let bits = match dtype {
        DType::F16 => 0x7C00_u32,
        DType::Bf16 => 0x7F80,
        // These have no infinity: the largest number.
        DType::Fp8 => 0x7E,
        DType::Fp4 => 0x7,
        _ => 0x7F80_0000,
    };
    let sign = if number < 0.0 { 1 << (dtype.bits() - 1) } else { 0 };
    let digits = (dtype.bits() as usize).div_ceil(4);
    format!("0x{:0digits$X}", bits | sign)
}

/// The least and the largest number of a type of whole numbers.
fn limits(dtype: DType) -> [f64; 2] {
    let half = 2_f64.powi(dtype.bits().cast_signed() - 1);
    [-half, half - 1.0]
}

/// The type in which operands of several types are computed.
pub(super) fn promoted(types: impl IntoIterator<Item = DType>) -> DType {
    let wider = |a: DType, b: DType| match (a.is_float(), b.is_float()) {
        (true, false) => a,
        (false, true) => b,
        (true, true) if a != b && a.bits() == b.bits() => DType::F32,
        _ if a == DType::Bool => b,
        _ if b == DType::Bool => a,
        _ if b.bits() > a.bits() => b,
        _ => a,
    };
    types.into_iter().reduce(wider).unwrap_or(DType::F32)
}
