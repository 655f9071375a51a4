//! Arguments that several commands share: sizes, hardware, and how plans are searched for. Help has
//! a heading for each group, and clap lists all later arguments under it: so groups come last in a
//! command.

use std::time::Duration;

use clap::Args;
use shardwise::options::Effort;
use shardwise::{Collectives, Fusion, Objective, Products, Rates, Refinement, Strategy, setting};

use super::one_of::one_of;

/// How a program is planned.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlanningArgs {
    #[command(flatten)]
    pub(crate) sizes: SizeArgs,
    #[command(flatten)]
    pub(crate) rates: RateArgs,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
}

/// What times and tokens are priced at.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sizes and hardware")]
pub(crate) struct RateArgs {
    /// The rates that times are computed at, instead of the program's.
    #[arg(long, value_name = "RATES", value_parser = one_of::<Rates>())]
    pub(crate) rates: Option<Rates>,
    /// The price of a chip-hour, instead of the hardware's: a plan then says what tokens cost.
    #[arg(long, value_name = "PRICE", allow_hyphen_values = true, value_parser = price)]
    pub(crate) price: Option<f64>,
}

/// Sizes instead of the programs' own, and the hardware that programs may name.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sizes and hardware")]
pub(crate) struct SizeArgs {
    /// Mesh axis sizes, instead of the program's: X=8,Y=8.
    #[arg(long, value_name = "AXES")]
    pub(crate) mesh: Option<String>,
    /// Sizes of dimensions and numbers of layers, instead of the program's: B=1024,L=2.
    #[arg(long = "dim", value_name = "SIZES")]
    pub(crate) dims: Vec<String>,
    /// Hardware to plan for, instead of the program's.
    #[arg(long, value_name = "NAME")]
    pub(crate) hardware: Option<String>,
    #[command(flatten)]
    pub(crate) hardware_files: HardwareFileArgs,
}

/// Hardware beside the presets.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct HardwareFileArgs {
    /// A TOML file of chips that can be named like the presets (`shardwise hardware --format toml`
    /// prints an example).
    #[arg(long = "hardware-file", id = "hardware_file", value_name = "FILE")]
    pub(crate) paths: Vec<String>,
}

/// Options of the search.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchArgs {
    /// How plans are made.
    #[arg(
        long,
        value_parser = one_of::<Strategy>(),
        default_value = Strategy::default().name()
    )]
    pub(crate) strategy: Strategy,
    /// The time that the search minimizes.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = one_of::<Objective>(),
        default_value = Objective::default().name()
    )]
    pub(crate) objective: Objective,
    /// Memory limit of a device, instead of the chip's memory: 300MB, 16GiB, none.
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = setting::bytes)]
    pub(crate) memory: Option<f64>,
    /// How collectives are priced.
    #[arg(
        long,
        value_name = "MODEL",
        value_parser = one_of::<Refinement>(),
        default_value = Refinement::default().name()
    )]
    pub(crate) cost: Refinement,
    /// Which operations run as one kernel [default: as the program's `hardware` line says, else
    /// attention].
    #[arg(long, value_name = "KERNELS", value_parser = one_of::<Fusion>())]
    pub(crate) fusion: Option<Fusion>,
    /// Whether products and the collectives next to them run beside each other, in chunks [default:
    /// as the program's `hardware` line says, else whole].
    #[arg(long, value_name = "PARTS", value_parser = one_of::<Collectives>())]
    pub(crate) collectives: Option<Collectives>,
    /// The dtype in which products with weights of layers read their operands [default: as the
    /// program's `hardware` line says, else written].
    #[arg(long, value_name = "DTYPE", value_parser = one_of::<Products>())]
    pub(crate) products: Option<Products>,
    /// Use every mesh axis whole, except in the parts that a program writes (`mesh X=16 as 8x2`).
    #[arg(long)]
    pub(crate) whole_axes: bool,
    /// Compute sums and products in the order that a program writes.
    #[arg(long)]
    pub(crate) keep_order: bool,
    /// How much the search does before it ends without a proof.
    #[arg(
        long,
        value_parser = one_of::<Effort>(),
        default_value = Effort::default().name()
    )]
    pub(crate) effort: Effort,
    /// Time limit of each plan; the best one so far is printed with its optimality gap.
    #[arg(
        long,
        value_name = "SECONDS",
        allow_hyphen_values = true,
        value_parser = setting::timeout
    )]
    pub(crate) timeout: Option<Duration>,
}

/// A parser of a whole number from 1 to `most`.
pub(super) fn count(
    most: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("give a whole number from 1 to {most}"))
    }
}

/// The same for each of several, which have a `|` between them.
pub(super) fn count_of_several(
    most: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    let one = count(most);
    move |text| {
        one(text).map_err(|error| {
            let has_commas = text.contains(',');
            let several = if has_commas { ", several with a `|` between them: 1|2|4" } else { "" };
            error + several
        })
    }
}

/// The seed of random numbers.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

/// A price: a number above zero.
fn price(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|price| price.is_finite() && *price > 0.0);
    number.ok_or_else(|| "a price is a number above zero, such as 2.5".to_owned())
}
