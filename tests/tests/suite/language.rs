//! What programs may say, construct by construct: what it means, what it costs, and what is
//! refused.

mod backward;
mod diagnostics;
mod hardware;
mod hardware_files;
mod long_attention;
mod masks_and_routing;
mod microbatches;
mod open_declarations;
mod operations;
mod optimizer;
mod pipelines;
mod repeat_blocks;
mod retained_weights;
mod ring_attention;
mod table_lookups;
