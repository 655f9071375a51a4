//! The page of published configurations beside what `tune` finds, a test for each source. A target
//! of its own, which is run on demand: it takes about twenty minutes.
//!
//! `SHARDWISE_UPDATE_PAGES=1` writes the rows of the tests that run.

use std::sync::Mutex;

use shardwise_tests::measured::{megatron_cases, time_cases};
use shardwise_tests::published::{SECTIONS, Section, calculon, found, row, with_section};
use shardwise_tests::{read, root};

const PAGE: &str = "compiler/docs/tune-published.md";

/// Meshes of four axes on 16,384 chips: so many that nobody waited for the end of their search.
const TOO_LARGE: &str = "llama3-405b-16384-cp16";

/// Sections are written by tests that may run at once.
static WRITING: Mutex<()> = Mutex::new(());

fn is_current(title: &str) {
    let section = section(title);
    let cases = time_cases().into_iter().chain(megatron_cases());
    let cases = cases.filter(|case| case.id != TOO_LARGE);
    let cases = cases.filter(|case| case.id.starts_with(section.cases));
    let rows: Vec<String> = cases.map(|case| shown(|| row(&found(&case)))).collect();
    has_rows(section, &rows);
}

fn section(title: &str) -> &'static Section {
    SECTIONS.iter().find(|section| section.title == title).expect("a section")
}

/// A row, printed with the time that it took.
#[expect(clippy::print_stdout, reason = "the tests take minutes, and show how far they are")]
fn shown(row: impl Fn() -> String) -> String {
    let began = std::time::Instant::now();
    let row = row();
    println!("{row} in {:?}", began.elapsed());
    row
}

/// Whether a section of the page has these rows; they are written if pages are to be.
fn has_rows(section: &Section, rows: &[String]) {
    assert!(!rows.is_empty());
    let _writing = WRITING.lock().expect("no other test failed to write");
    let page = with_section(&read(PAGE), section, rows);
    if std::env::var_os("SHARDWISE_UPDATE_PAGES").is_some() {
        std::fs::write(root().join(PAGE), &page).expect("the page can be written");
    }
    assert_eq!(read(PAGE), page, "{PAGE} is out of date");
}

#[test]
fn configurations_of_megatron() {
    is_current("Megatron");
}

#[test]
fn sizes_of_megatron() {
    is_current("Megatron, 1.7B to 1T");
}

#[test]
fn configurations_of_llama_3() {
    is_current("LLaMA 3 405B");
}

#[test]
fn configurations_of_mpt() {
    is_current("MPT");
}

#[test]
fn configurations_of_maxtext() {
    is_current("MaxText");
}

#[test]
fn layouts_of_palm() {
    is_current("PaLM inference");
}

#[test]
fn answers_of_calculon() {
    let rows: Vec<String> = calculon().iter().map(|of| shown(|| of.row())).collect();
    has_rows(section("calculon"), &rows);
}
