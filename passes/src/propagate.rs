//! The textbook's rules: shardings flow forward from statement to statement, and a product is one
//! of four cases ([`matmul_cases`]).

pub(crate) mod matmul_cases;
pub mod textbook;
