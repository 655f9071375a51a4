//! How plans are made, where a command plans on the way to something else (`diff`, `explain`): the
//! options of `plan` that decide what the plan is, without those that say what is read and printed.

use std::io;
use std::time::Duration;

use clap::Args;
use shardwise::{Objective, Options, Refinement, Strategy, setting};

use crate::args::{SizeArgs, one_of};
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
    #[arg(long, value_parser = one_of::<Strategy>(), default_value = Strategy::default().name())]
    strategy: Strategy,
    /// What the search makes small.
    #[arg(long, value_parser = one_of::<Objective>(), default_value = Objective::default().name())]
    objective: Objective,
    /// Bytes a device may hold: 300MB, 16GiB.
    #[arg(long, value_name = "BYTES", value_parser = setting::bytes)]
    memory: Option<f64>,
    /// `book` leaves a ring's (n-1)/n out, `exact` keeps it.
    #[arg(long, value_parser = one_of::<Refinement>(), default_value = Refinement::default().name())]
    cost: Refinement,
    /// Seconds after which the search gives the best so far, with its gap.
    #[arg(long, value_name = "SECONDS", value_parser = setting::timeout)]
    timeout: Option<Duration>,
}

impl ChoiceArgs {
    /// What they mean; nothing, after a complaint, where they mean nothing.
    pub(crate) fn options(&self, output: &mut Output) -> io::Result<Option<Options>> {
        let options = Options {
            strategy: self.strategy,
            objective: self.objective,
            refinement: self.cost,
            memory: self.memory,
            timeout: self.timeout,
            hardware: self.hardware.clone(),
            ..Options::default()
        };
        resized(options, &self.sizes, output)
    }
}
