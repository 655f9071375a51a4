//! Gradients of every program with `backward`, compared with `jax.vjp` of the exported forward
//! program.
//!
//! The forward program is the text before `backward`, with what is differentiated as its output;
//! the gradients are those of the text through `backward`, without optimizer. Both are planned
//! and exported by themselves, so that nothing of the compiler's gradients reaches the program that
//! JAX differentiates.

use std::path::{Path, PathBuf};

use serde_json::json;
use shardwise::json::{BlockJson, PlanJson};
use shardwise::{AxisSize, DimSize, Options, Strategy};

use crate::cases::{self, Case, JAX, assert_equal, paths};
use crate::common::empty_folder;
use crate::modules::{script, style};

/// The statement that asks for gradients.
struct Directive<'t> {
    /// The text before it, and through it.
    before: &'t str,
    through: &'t str,
    from: &'t str,
    given: Option<&'t str>,
}

impl<'t> Directive<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let start = text.find("\nbackward from ")? + 1;
        let end = start + text[start..].find('\n').unwrap_or(text.len() - start);
        let mut words = text[start..end].split([' ', ',']).skip(2);
        let from = words.next()?;
        let given = words.next().filter(|word| *word == "given").and_then(|_| words.next());
        Some(Self { before: &text[..start], through: &text[..end], from, given })
    }

    /// The forward program, where the plan of the gradients has the dimensions of its output.
    fn forward(&self, plan: &PlanJson) -> Option<String> {
        let value = |name: &str| plan.values.iter().rev().find(|value| value.value == name);
        let of = self.given.and_then(value).or_else(|| value(self.from))?;
        Some(format!("{}output {}[{}]\n", self.before, self.from, of.dims.join(", ")))
    }
}

/// The options that plan a program at the sizes of a small plan: the constants of gradients, such
/// as the number of elements of a mean, are then those of what JAX differentiates.
fn at_small_sizes(text: &str, small: &PlanJson) -> Options {
    let declared = text.lines().filter(|line| line.starts_with("dim "));
    let declared: Vec<&str> = declared.flat_map(|line| line[4..].split([',', ' ', '='])).collect();
    let dims = small.dims.iter().filter(|dim| dim.factors.is_empty());
    let dims = dims.filter(|dim| declared.contains(&dim.dim.as_str()));
    let dims = dims.map(|dim| DimSize { name: dim.dim.clone(), size: dim.size });
    let is_layers = |block: &&BlockJson| {
        block.reverses.is_none() && text.contains(&format!("repeat {}=", block.name))
    };
    let layers = small.blocks.iter().filter(is_layers);
    let layers = layers.map(|block| DimSize { name: block.name.clone(), size: block.count });
    let mesh = small.mesh.iter();
    let mesh = mesh.map(|axis| AxisSize::new(&axis.axis, axis.size));
    Options {
        dims: dims.chain(layers).collect(),
        mesh: mesh.collect(),
        memory: Some(f64::INFINITY),
        ..Options::default()
    }
}

/// The text with as many microbatches as a small plan has.
fn with_few_microbatches(text: &str, small: &PlanJson) -> String {
    let of = |block: &BlockJson| match &block.pipeline {
        Some(stages) => Some(stages.microbatches),
        None => block.microbatches.then_some(block.count),
    };
    let Some(few) = small.blocks.iter().find_map(of) else { return text.to_owned() };
    let mut parts = text.split("microbatches=");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        format!("{before}microbatches={few}{rest}")
    })
}

/// The case of a program's gradients, and the module of its forward program.
fn case(name: &str, text: &str) -> Option<(Case, serde_json::Value, String)> {
    let directive = Directive::of(text)?;
    let path = format!("{name}.shard");
    let of_text = |text: &str| Case::of_text((name.to_owned(), &path), text, Strategy::Search);
    let small = of_text(directive.through)?.small;
    let text = with_few_microbatches(text, &small);
    let options = at_small_sizes(&text, &small);
    let directive = Directive::of(&text)?;
    let planned = shardwise::plan(&path, directive.through, &options).ok()?;
    let gradients = Case::at_sizes_of(name.to_owned(), planned.clone(), &planned)?;
    let forward = directive.forward(&gradients.small)?;
    let forward = shardwise::plan(&path, &forward, &options).ok()?;
    let module = (style("shard_map").write)(&forward).ok()?;
    let asked = json!({ "from": directive.from, "seed": directive.given });
    Some((gradients, asked, module))
}

/// Writes the case of a program with `backward`; its path, or why there is none.
fn write(path: &Path, scratch: &Path) -> Option<Result<PathBuf, String>> {
    let text = std::fs::read_to_string(path).ok()?;
    Directive::of(&text)?;
    let name = cases::name(path)?;
    let Some((gradients, asked, module)) = case(&name, &text) else { return Some(Err(name)) };
    let mut case = asked;
    case["given"] = json!(gradients.given);
    case["expected"] = json!(gradients.expected);
    let path = scratch.join(&name).with_extension("json");
    std::fs::write(&path, case.to_string()).expect("a file can be written");
    std::fs::write(path.with_extension("py"), module).expect("a file can be written");
    Some(Ok(path))
}

#[test]
fn gradients_of_all_programs_are_those_of_jax() {
    let scratch = empty_folder("conformance-gradients");
    let all = paths("");
    let all: Vec<_> = all.iter().filter_map(|path| write(path, &scratch)).collect();
    let (paths, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    let paths: Vec<PathBuf> = paths.into_iter().flatten().collect();
    println!("{} programs; without a forward program at small sizes: {others:?}", paths.len());
    assert!(paths.len() > 60, "{}", paths.len());
    assert_equal(&mut script("check_gradients.py"), &paths, JAX);
}
