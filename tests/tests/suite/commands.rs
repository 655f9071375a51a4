//! Tests of the commands beside `plan` and `check`.

mod build_script;
mod calibrate;
mod calibrate_fit;
mod diff;
mod explain;
mod export_chakra;
mod export_names;
mod export_sdy;
mod forms;
mod inference_sizing;
mod metrics;
mod pages;
mod parallelism;
mod plan_html;
mod plan_json;
mod plan_markdown;
mod print_after;
mod sweep;
mod tune;
mod tune_answers;
mod tune_bounds;
mod tune_dtypes;
mod tune_exhaustive;
mod tune_flags;
mod tune_serving;
mod tune_space;
