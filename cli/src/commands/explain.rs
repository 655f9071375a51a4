//! `explain`: prints a code's page, or explains a program's collectives. An argument that looks
//! like a code is one; a program with such a name is written `./SW201`.

use shardwise::explain::{self, Explanation, Target};
use shardwise::{codes, docs, lint};

use super::planning::{beside, one_liner};
use crate::args::compare::ExplainArgs;
use crate::args::planning::PlanningArgs;
use crate::error::{Error, Result};
use crate::exit_status::ExitStatus;
use crate::input::read;
use crate::options;
use crate::output::Output;
use crate::progress::with_bar;

pub(super) fn explain(args: &ExplainArgs, output: &mut Output) -> Result {
    let (source, target) = match (&args.one_liner.expression, &args.subject) {
        (Some(expression), target) => (one_liner(expression, &args.planning.sizes), target),
        (None, Some(subject)) => {
            if let Some(page) = docs::code(subject).filter(|_| args.target.is_none()) {
                return output.print(&page);
            }
            if args.target.is_none() && looks_like_a_code(subject) {
                return Err(unknown_code(subject));
            }
            (read(subject)?, &args.target)
        }
        (None, None) => return Err(Error::usage("give a program or a diagnostic code")),
    };
    let sizes = beside(&args.one_liner, args.planning.sizes.clone());
    let options = options::planning(&PlanningArgs { sizes, ..args.planning.clone() })?;
    output.findings(&shardwise::unmeasured(&source.path, &source.text, &options))?;
    let target = target.as_deref().map_or(Target::Everything, Target::parse);
    let explanation = with_bar("plans", |progress| {
        explain::explain(&source.path, &source.text, &options, &target, progress)
    })?;
    if !matches!(explanation, Explanation::Plan(_)) {
        output.at_least(ExitStatus::Failure);
    }
    output.print(&(args.format.write)(&explanation).map_err(Error::usage)?)
}

/// `SW` and digits, in any case.
fn looks_like_a_code(text: &str) -> bool {
    let digits =
        text.get(..2).filter(|letters| letters.eq_ignore_ascii_case("SW")).map(|_| &text[2..]);
    digits.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn unknown_code(code: &str) -> Error {
    let mut known: Vec<&str> = codes::all()
        .map(|code| code.code)
        .chain(lint::all().iter().map(|lint| lint.code))
        .collect();
    known.sort_unstable();
    Error::usage(format!("`{code}` is not a diagnostic code; the codes are {}", known.join(" ")))
}
