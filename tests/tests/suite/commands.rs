//! What the commands beside `plan` and `check` answer.

mod build_script;
mod diff;
mod explain;
mod inference_sizing;
mod print_after;
mod sweep;
