//! The page on importing functions of JAX lists all that becomes an opaque statement, as the
//! importer has it: its warnings with what they propose, and the primitives that it knows to work
//! element by element or along some axes.

use shardwise_tests::{paths_below, read};

const IMPORTER: &str = "cli/python/importers/from_jax";

/// What warnings say of the language, which the page leaves out.
const NOT_THERE: [&str; 2] = [" is not in the language", " are not in the language"];

/// The string literals at the beginning of a list of arguments, those side by side as one; what is
/// no literal ends it.
fn literals(mut text: &str) -> Vec<String> {
    let mut found: Vec<String> = vec![String::new()];
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix(',') {
            found.push(String::new());
            text = rest;
            continue;
        }
        let literal = text.strip_prefix('f').unwrap_or(text).strip_prefix('"');
        let Some((literal, rest)) = literal.and_then(|literal| literal.split_once('"')) else {
            found.retain(|literal| !literal.is_empty());
            return found;
        };
        found.last_mut().expect("there is one").push_str(literal);
        text = rest;
    }
}

/// The parts of a text between what stands for a name, `{name}`.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').enumerate().map(|(number, part)| match number {
        0 => part,
        _ => part.split_once('}').map_or("", |(_, rest)| rest),
    })
}

/// Whether a row has the parts in this order.
fn has(row: &str, wanted: &str) -> bool {
    let mut left = row;
    parts(wanted).all(|part| match left.split_once(part.trim()) {
        Some((_, rest)) => {
            left = rest;
            true
        }
        None => false,
    })
}

/// The words in quotes of a definition, up to the line that closes it.
fn words(source: &str, definition: &str) -> Vec<String> {
    let body = source.split(definition).nth(1).expect("the definition is there");
    let lines = body.lines().take_while(|line| !line.starts_with('}'));
    let keys = lines.filter(|line| line.starts_with("    "));
    keys.flat_map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned)).collect()
}

#[test]
fn the_page_lists_what_becomes_opaque() {
    let page = read("compiler/docs/import-jax.md");
    let section = page.split("\n## What is opaque\n").nth(1).expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).collect();
    let mut missing = Vec::new();
    let mut count = 0;
    for path in paths_below(IMPORTER, ".py") {
        for call in read(&path).split(".fail(").skip(1) {
            let [message, help] = &literals(call)[..] else { continue };
            if NOT_THERE.iter().any(|words| message.contains(words)) {
                count += 1;
                let subject =
                    NOT_THERE.iter().fold(message.clone(), |text, of| text.replace(of, ""));
                let subject = subject.trim_end_matches(',');
                if !rows.iter().any(|row| has(row, subject) && row.contains(&**help)) {
                    missing.push(format!("{path}: | {subject} | {help} |"));
                }
            }
        }
    }
    assert!(count >= 13, "{count} warnings were found");
    let opaque = read(&format!("{IMPORTER}/opaque.py"));
    let of_axes = words(&opaque, "ALONG: dict[str, AxesOf] = {");
    let parameters = ["dimension", "fft_lengths"];
    let of_axes = of_axes.into_iter().filter(|word| !parameters.contains(&word.as_str()));
    let elementwise = read(&format!("{IMPORTER}/elementwise.py"));
    let refused = elementwise.lines().filter(|line| line.ends_with("\": _refused,"));
    let refused = refused.filter_map(|line| line.split('"').nth(1).map(str::to_owned));
    let names = words(&opaque, "OF_ELEMENTS = {").into_iter().chain(of_axes).chain(refused);
    missing.extend(names.filter(|name| !section.contains(&format!("`{name}`"))));
    let advice = words(&opaque, "ADVICE = {");
    for pair in advice.chunks(2) {
        let [name, advice] = pair else { panic!("a primitive without advice: {pair:?}") };
        let is_there = |row: &&&str| row.contains(&format!("`{name}`")) && row.contains(advice);
        missing
            .extend(rows.iter().find(is_there).is_none().then(|| format!("| {name} | {advice} |")));
    }
    super::none(&missing, "the page on importing JAX does not list these as opaque");
}
