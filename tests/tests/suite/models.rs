//! Complete models, from `LLaMA` to DeepSeek-V3, against published figures.

mod accuracy;
mod imported;
mod programs;
mod published_figures;
mod published_strategies;
mod twenty;
