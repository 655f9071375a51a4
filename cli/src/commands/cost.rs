//! `cost`: prints memory, work and bounds of a program, per statement and in total, and sizes it as
//! a serving step.

use shardwise::inference::{RequestedPhase, Sizing};

use super::planning::for_each_plan;
use crate::args::plan::{CostArgs, CostFormat};
use crate::error::{Error, Result};
use crate::output::Output;

pub(super) fn cost(args: &CostArgs, output: &mut Output) -> Result {
    let sizing = Sizing { phase: args.phase, batches: args.batches.clone() };
    for_each_plan(&args.programs, output, |planned, output| {
        if asks_for_sizing(args)
            && let Err(reason) = planned.inference(&sizing)
        {
            let text = format!("`{}` cannot be sized as asked: {reason}", planned.name);
            return output.error(Error::input(text));
        }
        output.print(&match args.format {
            CostFormat::Text => planned.cost_table_sized(&sizing),
            CostFormat::Json => planned.cost_sized(&sizing).to_text(),
            CostFormat::Html => planned.cost_html(&sizing).map_err(Error::input)?,
            CostFormat::Svg => planned.roofline().map_err(Error::input)?,
        })
    })
}

fn asks_for_sizing(args: &CostArgs) -> bool {
    let asks = matches!(args.phase, RequestedPhase::Prefill | RequestedPhase::Decode);
    asks || !args.batches.is_empty()
}
