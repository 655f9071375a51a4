//! `calibrate` as its users meet it: where the hardware file and the fit go, the page, and errors.

use std::path::{Path, PathBuf};

use crate::common::{empty_folder, root, run_page, text};
use crate::run_in;

/// A folder with the measurements of the page.
fn workshop(name: &str) -> PathBuf {
    let folder = empty_folder(name);
    std::fs::write(folder.join("bench.csv"), measurements()).expect("a file can be written");
    folder
}

fn measurements() -> String {
    let page = std::fs::read_to_string(root().join("compiler/docs/calibrate.md")).expect("a page");
    let (_, after) = page.split_once("```csv\n").expect("a block of CSV");
    after.split_once("```").expect("its end").0.to_owned()
}

/// The same with a byte order mark, as spreadsheets write it.
fn with_mark() -> String {
    format!("\u{feff}{}", measurements())
}

fn refused(folder: &Path, arguments: &[&str], status: i32) -> String {
    let output = run_in(folder, arguments, "");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{arguments:?}");
    text(&output.stderr)
}

#[test]
fn the_page_shows_what_the_command_prints() {
    assert_eq!(run_page("compiler/docs/calibrate.md", &workshop("calibrate-page")), 2);
}

#[test]
fn the_file_goes_where_it_is_asked_for() {
    let folder = workshop("calibrate-output");
    let plain = ["calibrate", "bench.csv", "--hardware", "h100"];
    let printed = run_in(&folder, &plain, "");
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    let (file, fit) = (text(&printed.stdout), text(&printed.stderr));
    assert!(file.contains("\n[measured-h100]\n") && fit.starts_with("measured-h100: "), "{file}");
    let written = run_in(&folder, &[&plain[..], &["-o", "m.toml"]].concat(), "");
    assert_eq!(text(&written.stdout), fit);
    assert_eq!(std::fs::read_to_string(folder.join("m.toml")).expect("it was written"), file);
    let piped = run_in(&folder, &["calibrate", "-", "--hardware", "h100"], &measurements());
    assert_eq!(text(&piped.stdout), file, "standard input");
    let marked = run_in(&folder, &["calibrate", "-", "--hardware", "h100"], &with_mark());
    assert_eq!(text(&marked.stdout), file, "{}", text(&marked.stderr));
    // A chip of a hardware file, and another name.
    let again = ["calibrate", "bench.csv", "--hardware-file", "m.toml", "--hardware"];
    let named = [&again[..], &["measured-h100", "--name", "mine"]].concat();
    assert!(text(&run_in(&folder, &named, "").stdout).contains("\n[mine]\n"));
    let same = [&again[..], &["measured-h100", "--name", "measured-h100"]].concat();
    assert_eq!(run_in(&folder, &same, "").status.code(), Some(0));
}

#[test]
fn wrong_uses_say_what_to_type() {
    let folder = workshop("calibrate-wrong");
    let with = |more: &[&'static str]| [&["calibrate", "bench.csv"][..], more].concat();
    assert!(refused(&folder, &with(&[]), 2).contains("--hardware"));
    assert!(refused(&folder, &with(&["--hardware", "h10"]), 2).contains("there are"));
    let preset = refused(&folder, &with(&["--hardware", "h100", "--name", "a100"]), 2);
    assert!(preset.contains("my-a100"), "{preset}");
    let name = refused(&folder, &with(&["--hardware", "h100", "--name", "my chip"]), 2);
    assert!(name.contains("letters, digits"), "{name}");
    let missing = refused(&folder, &["calibrate", "no.csv", "--hardware", "h100"], 2);
    assert!(missing.contains("no.csv") && missing.contains("file of measurements"), "{missing}");
    let over = refused(&folder, &with(&["--hardware", "h100", "-o", "bench.csv"]), 2);
    assert!(over.contains("would replace `bench.csv`"), "{over}");
    std::fs::write(folder.join("wrong.csv"), "kind,measured_us\nproduct,3\n").expect("a file");
    let wrong = ["calibrate", "bench.csv", "wrong.csv", "--hardware", "h100", "-o", "m.toml"];
    let wrong = refused(&folder, &wrong, 1);
    assert!(wrong.contains("SW412") && wrong.contains("wrong.csv:2:1"), "{wrong}");
    assert!(!folder.join("m.toml").exists(), "nothing is written after an error");
}

#[test]
fn one_measurement_is_no_plural_and_fits_nothing() {
    let folder = empty_folder("calibrate-one");
    let row = "kind,dtype,m,n,k,measured_us\nproduct,bf16,4096,4096,4096,200\n";
    std::fs::write(folder.join("one.csv"), row).expect("a file can be written");
    let output = run_in(&folder, &["calibrate", "one.csv", "--hardware", "h100"], "");
    let (file, fit) = (text(&output.stdout), text(&output.stderr));
    assert!(fit.contains("\nproducts: 1 measurement, off by "), "{fit}");
    assert!(file.contains("\n# products: 1 measurement, off by "), "{file}");
    assert!(file.contains(" median: nothing is fitted\n"), "{file}");
}
