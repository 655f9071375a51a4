//! The progress bar of commands that may take long: on standard error, and only on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardwise::tune::{Progress, Report};
use shardwise::units;

/// Runs shorter than this show no bar.
const DELAY: Duration = Duration::from_millis(400);

/// Runs `work`, which reports its progress in `things` from any thread.
pub(crate) fn with_bar<T>(
    things: &str,
    work: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> T,
) -> T {
    let bar = bar(&format!("{{wide_bar}} {{pos}}/{{len}} {things}, {{eta}} left"));
    let started = Instant::now();
    let result = work(&|done, all| {
        if started.elapsed() > DELAY {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    });
    bar.finish_and_clear();
    result
}

/// Runs a search, which reports its best solution and its bound.
pub(crate) fn with_proof<T>(work: impl FnOnce(Report<'_>) -> T) -> T {
    let bar = bar("{wide_bar} {pos}/{len} candidates, {msg}");
    let started = Instant::now();
    let result = work(&|Progress { done, all, best_s, bound_s }: Progress| {
        if started.elapsed() > DELAY {
            let best = best_s.map_or_else(|| "none yet".to_owned(), units::seconds);
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            bar.set_message(format!("best {best}, bound {}", units::seconds(bound_s)));
        }
    });
    bar.finish_and_clear();
    result
}

fn bar(template: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}
