//! The progress bar of commands that may take long: on standard error, and only on a terminal.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardwise::Options;
use shardwise::options::{Listener, Progress as GapSoFar};
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

/// Runs a search, which reports its best solution and its bound. The line is drawn again and again,
/// since one candidate may take minutes.
pub(crate) fn with_proof<T>(work: impl FnOnce(Report<'_>) -> T) -> T {
    let bar = bar("{wide_bar} {pos}/{len} candidates, {msg}, {elapsed}");
    let last: Mutex<Option<Progress>> = Mutex::new(None);
    let lock = || last.lock().unwrap_or_else(PoisonError::into_inner);
    let draw = || {
        if let Some(progress) = *lock() {
            bar.set_length(progress.all as u64);
            bar.set_position(progress.done as u64);
            bar.set_message(on_chips(progress));
            bar.tick();
        }
    };
    let result = again_and_again(draw, || work(&|progress| *lock() = Some(progress)));
    bar.finish_and_clear();
    result
}

/// `on 16 chips: best 3.2 ms, bound 3.1 ms`.
fn on_chips(Progress { chips, best_s, bound_s, .. }: Progress) -> String {
    let best = best_s.map_or_else(|| "none yet".to_owned(), units::seconds);
    let chips = units::counted(chips, "chip");
    format!("on {chips}: best {best}, bound {}", units::seconds(bound_s))
}

/// Draws from time to time while `work` runs.
fn again_and_again<T>(draw: impl Fn() + Send, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (running, is_over) = channel::<()>();
        scope.spawn(move || {
            while is_over.recv_timeout(DELAY) == Err(RecvTimeoutError::Timeout) {
                draw();
            }
        });
        let result = work();
        drop(running);
        result
    })
}

/// Plans a program, and shows the bound and the best plan of a search that takes longer.
pub(crate) fn with_gap<T>(options: &Options, work: impl FnOnce(&Options) -> T) -> T {
    let bar = bar("{spinner} {elapsed}: {msg}");
    let (line, started) = (bar.clone(), Instant::now());
    let listener = Listener::new(move |GapSoFar { best_s, lower_bound_s }| {
        if started.elapsed() > DELAY {
            line.set_message(gap(best_s, lower_bound_s));
            line.tick();
        }
    });
    let result = work(&Options { listener, ..options.clone() });
    bar.finish_and_clear();
    result
}

/// `best 3.2 ms, bound 3.1 ms: 3.1%; Ctrl-C takes it`.
fn gap(best_s: f64, lower_bound_s: f64) -> String {
    if best_s.is_infinite() {
        return format!("no plan yet, bound {}", units::seconds(lower_bound_s));
    }
    let (best, bound) = (units::seconds(best_s), units::seconds(lower_bound_s));
    let percent = 100.0 * (best_s / lower_bound_s - 1.0).max(0.0);
    format!("best {best}, bound {bound}: within {percent:.1}%; Ctrl-C takes it")
}

fn bar(template: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{DELAY, again_and_again};

    #[test]
    fn a_line_is_drawn_while_work_says_nothing() {
        let drawn = AtomicUsize::new(0);
        let draw = || {
            drawn.fetch_add(1, Ordering::Relaxed);
        };
        again_and_again(draw, || ());
        assert_eq!(drawn.load(Ordering::Relaxed), 0, "short work has no line");
        again_and_again(draw, || std::thread::sleep(3 * DELAY));
        assert!(drawn.load(Ordering::Relaxed) > 0);
    }
}
