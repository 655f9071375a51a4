//! The progress bar of commands that may take long: on standard error, and only on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Runs shorter than this show no bar.
const DELAY: Duration = Duration::from_millis(400);

/// Runs `work`, which reports its progress in `things` from any thread.
pub(crate) fn with_bar<T>(
    things: &str,
    work: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> T,
) -> T {
    let template = format!("{{wide_bar}} {{pos}}/{{len}} {things}, {{eta}} left");
    let style =
        ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
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
