//! The numbers of the book and of the texts beside it, each as a test named by its id, and their
//! programs with the plans that they print.

mod chapter_questions;
mod collectives;
mod coverage;
mod inference;
mod inference_shardings;
mod llama_70b;
mod mlp;
mod programs;
mod sharding;
mod tensor_parallelism;
mod training;
mod training_algorithms;
mod transformers;
