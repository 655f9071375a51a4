//! The language, construct by construct: its meaning, its cost, and its errors.

mod attention_calls;
mod axes_of_one_device;
mod backward;
mod checkpoints;
mod diagnostics;
mod editor_grammars;
mod exchanges;
mod fusion;
mod hardware;
mod hardware_files;
mod long_attention;
mod masks_and_routing;
mod measured_rates;
mod microbatches;
mod names_and_sizes;
mod nested_blocks;
mod open_declarations;
mod operations;
mod optimizer;
mod pipelines;
mod reference;
mod repeat_blocks;
mod retained_weights;
mod ring_attention;
mod scans;
mod table_lookups;
