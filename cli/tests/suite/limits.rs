//! What ends a search: `--timeout`, `--effort` and Ctrl-C.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{common, run};

/// A grid of products with two shared parameters, whose gap stays open.
fn grid(size: usize) -> String {
    let mut text = "hardware tpu-v5p\nmesh X=4, Y=4, Z=4\ndim B=512, J=4096, K=4096\n\
        input x[B_X, J]\nparam m[J_X, K_Y], n[K_X, J_Y]\n"
        .to_owned();
    for i in 0..size {
        for j in 0..size {
            let up = (i > 0).then(|| format!("g{}_{j}", i - 1));
            let left = (j > 0).then(|| format!("g{i}_{}", j - 1));
            let sum = match (up, left) {
                (Some(up), Some(left)) => format!("({up} + {left})"),
                (up, left) => up.or(left).unwrap_or_else(|| "x".to_owned()),
            };
            let by = if (i + j) % 2 == 0 { "*J m" } else { "*K n" };
            let _ = writeln!(text, "g{i}_{j} = {sum} {by}");
        }
    }
    let last = size - 1;
    let _ = writeln!(text, "output g{last}_{last}[B_?, K_?]");
    text
}

#[test]
fn a_plan_within_a_timeout_says_how_far_it_is_from_the_optimum() {
    let output = run(&["plan", "--timeout", "0.3", "-"], &grid(8));
    assert!(output.status.success(), "{}", common::text(&output.stderr));
    assert!(common::text(&output.stdout).contains("# found: within"));
}

#[test]
fn more_effort_never_finds_a_costlier_plan() {
    let seconds = |effort: &str| {
        let output = run(&["plan", "--effort", effort, "--format", "json", "-"], &grid(4));
        let json: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("plans are printed as JSON");
        json["cost"]["serial_s"].as_f64().expect("a plan has a time")
    };
    assert!(seconds("high") <= seconds("quick"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_prints_the_best_plan_so_far() {
    let mut child = Command::new(common::SHARDWISE)
        .args(["plan", "--effort", "high", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(grid(24).as_bytes())
        .expect("the command reads");
    std::thread::sleep(Duration::from_millis(1500));
    let started = Instant::now();
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success(), "{}", common::text(&output.stderr));
    assert!(common::text(&output.stdout).contains("# found: within"));
    assert!(started.elapsed() < Duration::from_secs(30), "the search does not go on");
}
