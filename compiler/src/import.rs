//! Programs from descriptions of models in other formats, one folder per format.

pub mod hf;
