//! `explain`: a code's page, or a program's collectives. What is a code, or looks like one, is
//! taken for one; a program called so is `./SW201`.

use std::io;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardwise::explain::{self, Explanation, Target};
use shardwise::{Findings, Options, codes, lint};

use crate::args::{ExplainArgs, ExplainFormat};
use crate::commands::{Source, read};
use crate::output::{Ending, Output};

/// Runs shorter than this show no bar.
const PATIENCE: Duration = Duration::from_millis(400);

pub(crate) fn explain(args: &ExplainArgs, output: &mut Output) -> io::Result<()> {
    if args.target.is_none() {
        if let Some(page) = page(&args.subject) {
            return output.out(&page);
        }
        if looks_like_a_code(&args.subject) {
            return no_such_code(&args.subject, output);
        }
    }
    let Some(options) = args.choices.options(output)? else { return Ok(()) };
    let Some(source) = read(&args.subject, output)? else { return Ok(()) };
    let target = args.target.as_deref().map_or(Target::Everything, Target::parse);
    match watched(&source, &options, &target) {
        Err(findings) => output.findings(&findings),
        Ok(explanation) => {
            if !matches!(explanation, Explanation::Plan(_)) {
                output.worst(Ending::WrongInput);
            }
            output.out(&match args.format {
                ExplainFormat::Text => explanation.to_string(),
                ExplainFormat::Json => explanation.json(),
            })
        }
    }
}

/// Explains with a bar on stderr that appears when the run is long (indicatif hides it where that
/// is no terminal).
fn watched(source: &Source, options: &Options, target: &Target) -> Result<Explanation, Findings> {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} plans, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
    let started = Instant::now();
    let progress = |done: usize, all: usize| {
        if started.elapsed() > PATIENCE {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    };
    let explained = explain::explain(&source.path, &source.text, options, target, &progress);
    bar.finish_and_clear();
    explained
}

/// `SW` and digits, in any case.
fn looks_like_a_code(text: &str) -> bool {
    let digits =
        text.get(..2).filter(|letters| letters.eq_ignore_ascii_case("SW")).map(|_| &text[2..]);
    digits.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The page of a code, if it is one.
fn page(code: &str) -> Option<String> {
    let lint = lint::find(code).map(|lint| format!("{lint}\n"));
    lint.or_else(|| {
        codes::find(code).map(|code| format!("{} {}\n\n{}\n", code.code, code.name, code.page))
    })
}

fn no_such_code(code: &str, output: &mut Output) -> io::Result<()> {
    let mut known: Vec<&str> = codes::all()
        .map(|code| code.code)
        .chain(lint::all().iter().map(|lint| lint.code))
        .collect();
    known.sort_unstable();
    output.complain(
        &format!("`{code}` is no code; the codes are {}", known.join(" ")),
        Ending::WrongUsage,
    )
}
