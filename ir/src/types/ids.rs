//! Typed ids: one per table, so that a dimension can never be taken for an axis.

index_vec::define_index_type! {
    /// A mesh axis.
    pub struct AxisId = u8;
}
index_vec::define_index_type! {
    /// A named dimension.
    pub struct DimId = u32;
}
index_vec::define_index_type! {
    /// A value of the program.
    pub struct ValueId = u32;
}
index_vec::define_index_type! {
    /// A block whose statements run once per layer.
    pub struct RepeatId = u16;
}
index_vec::define_index_type! {
    /// An operation of the program.
    pub struct OpId = u32;
}
