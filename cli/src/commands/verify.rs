//! `verify`: runs the plans of every program on simulated devices.

use shardwise::verify::{self, Setup, Sizes, Verdict};
use shardwise::{Findings, Options, Strategy};

use super::planning::{beside, one_liner};
use crate::args::compare::VerifyArgs;
use crate::error::Result;
use crate::exit_status::ExitStatus;
use crate::input::{Source, read};
use crate::options;
use crate::output::Output;
use crate::progress::with_bar;

pub(super) fn verify(args: &VerifyArgs, output: &mut Output) -> Result {
    let options = Options { explicit: args.explicit, ..Options::default() };
    let options = options::sized(options, &beside(&args.one_liner, args.sizes.clone()))?;
    let reference = args.against.as_deref().map(read).transpose()?;
    let expression = args.one_liner.expression.iter();
    let expression = expression.map(|expression| Ok(one_liner(expression, &args.sizes)));
    for source in expression.chain(args.files.iter().map(|path| read(path))) {
        let done = source.and_then(|source| match &reference {
            Some(reference) => against(args, &source, reference, &options, output),
            None => both_strategies(args, &source, &options, output),
        });
        if let Err(error) = done {
            output.error(error)?;
        }
    }
    Ok(())
}

/// Runs a plan that was written by hand against its program.
fn against(
    args: &VerifyArgs,
    plan: &Source,
    program: &Source,
    options: &Options,
    output: &mut Output,
) -> Result {
    let (plan, program) = ((&*plan.path, &*plan.text), (&*program.path, &*program.text));
    let verdict = run(args, |setup| verify::against(plan, program, options, setup))?;
    print(plan.0, &verdict, output)
}

/// Runs the plan of the search and that of the textbook, if its rules find one; an explicit program
/// is its own plan, and is run once.
fn both_strategies(
    args: &VerifyArgs,
    source: &Source,
    options: &Options,
    output: &mut Output,
) -> Result {
    for strategy in [Strategy::Search, Strategy::Textbook] {
        // The textbook's plan is verified whether it fits into memory or not.
        let memory = (strategy == Strategy::Textbook).then_some(f64::INFINITY);
        let options = Options { strategy, memory, ..options.clone() };
        let verdict =
            run(args, |setup| verify::verify(&source.path, &source.text, &options, setup))?;
        print(&source.path, &verdict, output)?;
        if verdict.plan == "explicit" || verdict.rules_fail {
            break;
        }
    }
    Ok(())
}

fn run(
    args: &VerifyArgs,
    work: impl FnOnce(&Setup<'_>) -> std::result::Result<Verdict, Findings>,
) -> std::result::Result<Verdict, Findings> {
    let sizes = if args.full { Sizes::Full } else { Sizes::Scaled };
    with_bar("statements", |progress| {
        work(&Setup { sizes, seed: args.seed, progress: &progress, ..Setup::default() })
    })
}

fn print(path: &str, verdict: &Verdict, output: &mut Output) -> Result {
    if verdict.mismatch.is_some() {
        output.at_least(ExitStatus::Failure);
    }
    output.print(&format!("{path} ({}): {verdict}\n", verdict.plan))
}
