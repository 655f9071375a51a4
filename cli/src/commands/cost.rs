//! `cost`: prints memory, work and bounds of a program, per statement and in total, and sizes it as
//! a serving step.

use clap::ValueEnum;
use shardwise::Planned;
use shardwise::inference::{RequestedPhase, Sizing};

use super::planning::{for_each_plan, one_to_print, write_one};
use crate::args::plan::{CostArgs, CostFormat};
use crate::error::{Error, Result};
use crate::output::Output;

pub(super) fn cost(args: &CostArgs, output: &mut Output) -> Result {
    let sizing = Sizing { phase: args.phase, batches: args.batches.clone() };
    let written = |planned: &Planned| written(planned, args, &sizing);
    if let Some(path) = &args.output {
        return write_one(&args.programs, path, output, written);
    }
    if args.format != CostFormat::Text {
        let name = args.format.to_possible_value();
        let name = name.as_ref().map_or("", |value| value.get_name());
        one_to_print(&args.programs, &format!("--format {name}"))?;
    }
    for_each_plan(&args.programs, output, |planned, output| match written(planned) {
        Ok(text) => output.print(&text),
        Err(error) => output.error(error),
    })
}

/// What is printed of a plan.
fn written(planned: &Planned, args: &CostArgs, sizing: &Sizing) -> Result<String> {
    if asks_for_sizing(args)
        && let Err(reason) = planned.inference(sizing)
    {
        let text = format!("`{}` cannot be sized as asked: {reason}", planned.name);
        return Err(Error::input(text));
    }
    match args.format {
        CostFormat::Text => Ok(planned.cost_table_sized(sizing)),
        CostFormat::Json => Ok(planned.cost_sized(sizing).to_text()),
        CostFormat::Html => planned.cost_html(sizing).map_err(Error::input),
        CostFormat::Svg => planned.roofline().map_err(Error::input),
    }
}

fn asks_for_sizing(args: &CostArgs) -> bool {
    let asks = matches!(args.phase, RequestedPhase::Prefill | RequestedPhase::Decode);
    asks || !args.batches.is_empty()
}
