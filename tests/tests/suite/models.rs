//! Whole models, from `LLaMA` to DeepSeek-V3, against what was published of them.

mod programs;
mod published_figures;
