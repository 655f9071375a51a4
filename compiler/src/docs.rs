//! The pages of the book, kept in the command, so that they can be read where it is installed and
//! say what this version does. `compiler/docs/SUMMARY.md` has the same pages in the same order, for
//! mdBook; a test compares the two.

use std::fmt::Write as _;

use shardwise_ir::suggest;

use crate::lint;

/// A page.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    /// The name of its file in `compiler/docs`, without `.md`.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    text: fn() -> String,
}

/// Writes the table from names and lines; the page of codes is generated.
macro_rules! topics {
    ($($name:literal: $about:literal,)*) => {
        /// Every page: the tutorial, the language, how to do what, theory.
        pub const TOPICS: &[Topic] = &[
            $(Topic {
                name: $name,
                about: $about,
                text: || include_str!(concat!("../docs/", $name, ".md")).to_owned(),
            },)*
            Topic {
                name: "codes",
                about: "every diagnostic code, with an example and its fix",
                text: lint::reference,
            },
        ];
    };
}

topics! {
    "tutorial": "from one product to a trained layer on two axes: begin here",
    "language": "the reference: every statement, operator, type and option",
    "notation": "how names, sizes and lines are written",
    "operations": "operations beyond products, and every function",
    "repeat": "layers, and layers in layers",
    "scan": "steps along a dimension: chunks in, a state from step to step, results stacked",
    "checkpoint": "what is computed again rather than kept for gradients",
    "optimizer": "optimizers, frozen parameters, dtypes of gradients",
    "microbatches": "gradients accumulated over parts of the batch",
    "pipelines": "layers in stages: schedules, chunks, bubbles",
    "hardware": "chips, meshes, links, hardware files, measured rates",
    "install": "each way to install the command, and which are tested",
    "strategy": "as what each mesh axis acts: DP, FSDP, TP, SP, EP, PP",
    "report": "a plan as a page for the browser, and how to read it",
    "explain": "why a collective is there, and which edits avoid it",
    "cost": "FLOPs, bytes, bounds, MFU, the roofline",
    "inference": "sizes of prefill and decode steps",
    "attention": "the ways to shard attention over long sequences",
    "models": "complete models and what their plans take",
    "sweep": "plans over mesh shapes, sizes and chips",
    "tune": "the best strategy on a number of chips, with a proof",
    "diff": "what changed between two plans",
    "lints": "checking programs: levels, fixes, formats",
    "import": "programs from Hugging Face configurations",
    "import-jax": "programs of functions in JAX, and what is imported",
    "import-torch": "programs of models in PyTorch, and what is imported",
    "export": "plans as JSON and as JAX",
    "xla": "plans beside what XLA's partitioner makes of the same programs",
    "python": "the Python package",
    "build": "plans in build scripts and build tools",
    "testing": "snapshot tests of plans and findings",
    "editors": "errors, fixes, prices and formatting while you type",
    "ci": "editing, committing, reviewing",
    "calibrate": "measurements to the rates of a chip",
    "theory": "the four cases of products, prices of collectives, the search",
    "search": "how the solver works, and its results on public instances",
    "fusion": "which operations run as one kernel",
    "reshards": "bytes of every reshard beside the fewest that any plan could take",
    "accuracy": "predictions beside published measurements",
    "tune-published": "published configurations beside what `tune` finds",
    "serving": "serving steps beside engines and another predictor",
    "tune-serving": "serving deployments of `tune` beside another search",
    "reliability": "what is tried to break it, and how files and limits behave",
    "promises": "what is stable between versions; exit codes",
    "contributing": "the files to touch for an addition",
}

/// A page by its name, or that of a diagnostic code.
///
/// ```
/// assert!(shardwise::docs::page("pipelines").is_some_and(|page| page.starts_with("# Pipelines")));
/// assert!(shardwise::docs::page("sw101").is_some_and(|page| page.starts_with("SW101")));
/// ```
pub fn page(name: &str) -> Option<String> {
    let topic = TOPICS.iter().find(|topic| topic.name.eq_ignore_ascii_case(name));
    topic.map(|topic| (topic.text)()).or_else(|| code(name))
}

/// The page of a diagnostic code, in any case.
pub fn code(code: &str) -> Option<String> {
    let lint = lint::find(code).map(|lint| format!("{lint}\n"));
    lint.or_else(|| {
        let code = crate::codes::find(code)?;
        Some(format!("{} {}\n\n{}\n", code.code, code.name, code.page))
    })
}

/// All pages with their lines.
pub fn list() -> String {
    let width = TOPICS.iter().map(|topic| topic.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Topic { name, about, .. } in TOPICS {
        let _ = writeln!(text, "{name:width$}  {about}");
    }
    text + "\nshardwise docs TOPIC prints one of them, shardwise docs SW301 that of a code\n"
}

/// The page, or code, whose name is nearest to a name that is none.
pub fn nearest(name: &str) -> Option<&'static str> {
    let codes = crate::codes::all().map(|code| code.code);
    let lints = lint::all().iter().map(|lint| lint.code);
    suggest::nearest(name, TOPICS.iter().map(|topic| topic.name).chain(codes).chain(lints))
}
