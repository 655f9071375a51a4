//! Options of pipelines that no pipeline of the space would have: they are refused, not ignored.

use std::fmt::Display;

use shardwise::Schedule;
use shardwise::tune::Request;

use super::distinct;
use crate::args::tune::TuneArgs;
use crate::error::{Error, Result};

/// Runs of layers on a stage, where --chunks does not say.
const CHUNKS: [u64; 2] = [1, 2];

/// Runs of layers on a stage.
pub(super) fn chunks(args: &TuneArgs) -> Vec<u64> {
    if args.chunks.is_empty() { CHUNKS.to_vec() } else { distinct(&args.chunks) }
}

/// An option that asks for other pipelines than those of the default.
pub(super) fn given(args: &TuneArgs, default: &Request) -> Option<&'static str> {
    let asks_for_stages = args.stages.iter().any(|&stages| stages > 1);
    let given = [
        ("--stages", asks_for_stages && args.stages != default.stages),
        ("--schedules", args.schedules != default.schedules),
        ("--chunks", args.chunks.iter().any(|&chunks| chunks > 1)),
        ("--fewer-first", args.fewer_first),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
}

/// An error for options that have no effect beside the others.
pub(super) fn check(args: &TuneArgs, default: &Request) -> Result {
    let refused =
        of_stages(args, default).or_else(|| of_chunks(args)).or_else(|| of_fewer_first(args));
    refused.map_or(Ok(()), |text| Err(Error::usage(text)))
}

/// `--stages 1 --schedules zb-h1`, `--stages 1 --chunks 2`, `--stages 1 --fewer-first`.
fn of_stages(args: &TuneArgs, default: &Request) -> Option<String> {
    if args.stages.iter().any(|&stages| stages > 1) {
        return None;
    }
    let has_chunks = args.chunks.iter().any(|&chunks| chunks > 1);
    let given = [
        ("--schedules", args.schedules != default.schedules),
        ("--chunks", has_chunks),
        ("--fewer-first", args.fewer_first),
    ];
    let (option, _) = given.into_iter().find(|(_, is_given)| *is_given)?;
    Some(format!(
        "{option} is for pipelines, and --stages 1 has none; leave {option} out, or allow more \
            --stages"
    ))
}

/// `--schedules zb-h1 --chunks 2`: only some schedules leave the number of chunks open.
fn of_chunks(args: &TuneArgs) -> Option<String> {
    let is_had = |chunks: u64| {
        let mut own = args.schedules.iter().map(|schedule| schedule.fixed_chunks());
        own.any(|own| own.is_none_or(|own| own == chunks))
    };
    let others: Vec<u64> =
        distinct(&args.chunks).into_iter().filter(|&chunks| !is_had(chunks)).collect();
    let schedules = names(&args.schedules);
    (!others.is_empty()).then(|| {
        format!(
            "--chunks {} is for the schedules gpipe and 1f1b, and --schedules is {schedules}; \
                leave --chunks out, or write --schedules '{schedules}|1f1b'",
            listed(&others)
        )
    })
}

/// `--schedules gpipe --fewer-first`, `--chunks 2 --fewer-first`.
fn of_fewer_first(args: &TuneArgs) -> Option<String> {
    let schedules = names(&args.schedules);
    let chunks = chunks(args);
    let (option, given, with) = if !args.fewer_first {
        return None;
    } else if !args.schedules.contains(&Schedule::OneForwardOneBackward) {
        ("--schedules", schedules.clone(), format!("{schedules}|1f1b"))
    } else if !chunks.contains(&1) {
        ("--chunks", listed(&chunks), format!("1|{}", listed(&chunks)))
    } else {
        return None;
    };
    Some(format!(
        "--fewer-first is for the schedule 1f1b with one chunk, and {option} is {given}; leave \
            --fewer-first out, or write {option} '{with}'"
    ))
}

fn names(schedules: &[Schedule]) -> String {
    listed(&distinct(schedules).into_iter().map(Schedule::name).collect::<Vec<_>>())
}

/// `1|2`: several, as the option is written.
fn listed(of: &[impl Display]) -> String {
    of.iter().map(ToString::to_string).collect::<Vec<_>>().join("|")
}
