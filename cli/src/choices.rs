//! How plans are made, where a command plans on the way to something else (`diff`, `explain`): the
//! options of `plan` that decide what the plan is, without those that say what is read and printed.

use std::io;
use std::time::Duration;

use clap::Args;
use shardwise::Options;

use crate::args::{self, Cost, Objective, SizeArgs, Strategy};
use crate::commands::resized;
use crate::output::Output;

#[derive(Args, Debug)]
pub(crate) struct ChoiceArgs {
    #[command(flatten)]
    sizes: SizeArgs,
    /// Hardware instead of the program's.
    #[arg(long)]
    hardware: Option<String>,
    /// How the plan is made.
    #[arg(long, value_enum, default_value_t = Strategy::Search)]
    strategy: Strategy,
    /// What the search makes small.
    #[arg(long, value_enum, default_value_t = Objective::Serial)]
    objective: Objective,
    /// Bytes a device may hold: 300MB, 16GiB.
    #[arg(long, value_name = "BYTES", value_parser = args::bytes)]
    memory: Option<f64>,
    /// `book` leaves a ring's (n-1)/n out, `exact` keeps it.
    #[arg(long, value_enum, default_value_t = Cost::Book)]
    cost: Cost,
    /// Seconds after which the search gives the best so far, with its gap.
    #[arg(long, value_name = "SECONDS", value_parser = args::seconds)]
    timeout: Option<f64>,
}

impl ChoiceArgs {
    /// What they mean; nothing, after a complaint, where they mean nothing.
    pub(crate) fn options(&self, output: &mut Output) -> io::Result<Option<Options>> {
        let options = Options {
            strategy: self.strategy.into(),
            objective: self.objective.into(),
            refinement: self.cost.into(),
            memory: self.memory,
            timeout: self.timeout.map(Duration::from_secs_f64),
            hardware: self.hardware.clone(),
            ..Options::default()
        };
        resized(options, &self.sizes, output)
    }
}
