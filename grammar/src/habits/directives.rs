//! Declarations of the machine, and what is asked of the compiler, as other tools write them:
//! `mesh (4, 2)`, `dim B=8 D=8`, `hardware h100 rates=measured`, `backward(loss)`,
//! `optimizer AdamW(lr=1e-3)`, `remat y`.

use strsim::damerau_levenshtein;

use super::{Habit, Shapes, first_word, last_word};

/// What follows a keyword; nothing where the word is the name of a value.
fn after<'t>(text: &'t str, keyword: &str) -> Option<&'t str> {
    let rest = text[first_word(text).len()..].trim();
    let is_defined = rest.starts_with('=') || rest.starts_with('[') && rest.contains("] =");
    let is_name = first_word(text) != keyword || is_defined;
    (!is_name).then_some(rest)
}

/// `hardware = h100`, `mesh: X=4`, `output: y[B]`: a sign after a keyword.
pub(super) fn sign(text: &str) -> Option<Habit> {
    let keyword = first_word(text);
    let is_keyword = matches!(
        keyword,
        "hardware" | "mesh" | "dim" | "input" | "param" | "state" | "output" | "optimizer"
    );
    let rest = text[keyword.len()..].trim_start();
    let sign = rest.get(..1).filter(|sign| is_keyword && matches!(*sign, "=" | ":"))?;
    let after = rest[1..].trim();
    // What is computed needs a name, and no other place.
    let is_computed = sign == "=" && after.contains(['*', '(', '+']);
    let help = format!("write `{keyword} {after}`");
    let message = format!("no `{sign}` follows `{keyword}`");
    let label = "leave it out";
    let at = text.len() - rest.len();
    let habit = Habit { at: (at, at + 1), ..Habit::new(text, "", message, label, help) };
    (!is_computed && !after.is_empty()).then_some(habit)
}

/// The axes of a mesh: `mesh X: 4`, `mesh (4, 2)`, `mesh {X=4, Y=2}`, `mesh (4, 2), (X, Y)`,
/// `mesh 4x2`.
pub(super) fn mesh(text: &str) -> Option<Habit> {
    let rest = after(text, "mesh")?;
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        let sizes = rest.split(|c: char| !c.is_ascii_digit()).filter(|size| !size.is_empty());
        let axes = in_brackets(&sizes.collect::<Vec<_>>().join(","));
        let help = format!("write `mesh {axes}`");
        return Some(Habit::new(text, rest, "the axes of a mesh have names", "sizes alone", help));
    }
    let inside = rest.strip_prefix(['(', '[', '{']);
    let axes = match inside {
        Some(inside) => in_brackets(inside),
        None => rest.to_owned(),
    };
    let axes = axes.replace(": ", "=").replace(':', "=");
    let (message, label) = match inside {
        _ if rest.contains(':') => ("the size of an axis follows a `=`", "the axes"),
        Some(inside) if inside.contains('=') => ("the axes of a mesh have no brackets", "brackets"),
        Some(_) => ("the axes of a mesh have names", "sizes alone"),
        None => return None,
    };
    Some(Habit::new(text, rest, message, label, format!("write `mesh {axes}`")))
}

/// The axes of a mesh in brackets, with the names that follow in others, or names of ours.
fn in_brackets(inside: &str) -> String {
    let (sizes, after) = inside.split_once([')', ']', '}']).unwrap_or((inside, ""));
    if sizes.contains(['=', ':']) {
        return sizes.trim().to_owned();
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let written = after.split(|c: char| !is_name(c));
    let written = written.filter(|name| name.starts_with(char::is_alphabetic));
    let names = written.chain(["X", "Y", "Z", "W"]);
    let axes = names.zip(sizes.split(',')).map(|(name, size)| format!("{name}={}", size.trim()));
    axes.collect::<Vec<String>>().join(", ")
}

/// `mesh X=4 Y=2`, `dim B=8 D=8`: the commas are missing.
pub(super) fn commas(text: &str) -> Option<Habit> {
    let keyword = first_word(text);
    if !matches!(keyword, "mesh" | "dim") || text.contains(';') {
        return None;
    }
    let begins = |word: &str| word.starts_with(char::is_alphabetic) && word.contains('=');
    let (mut written, mut second, mut before) = (String::new(), None, ",");
    for word in text[keyword.len()..].split_whitespace() {
        if begins(word) && !before.ends_with([',', '=']) {
            written.push(',');
            second = second.or(Some(word));
        }
        written.push(' ');
        written.push_str(word);
        before = word;
    }
    let message = "a `,` is missing between two of them";
    let help = format!("write `{keyword}{written}`");
    Some(Habit::new(text, second?, message, "a `,` before it", help))
}

/// `hardware h100 rates=measured`: settings follow a comma.
pub(super) fn hardware(text: &str) -> Option<Habit> {
    let rest = after(text, "hardware")?;
    if let Some(habit) = spaced(text, rest) {
        return Some(habit);
    }
    let (before, setting) = rest.split_once('=')?;
    let key = last_word(before);
    let chip = before[..before.trim_end().len() - key.len()].trim_end();
    if chip.is_empty() || key.is_empty() || chip.contains([',', ';']) {
        return None;
    }
    let help = format!("write `hardware {chip}, {key}={}`", setting.trim());
    let message = "a `,` is missing before the setting";
    Some(Habit::new(text, rest[chip.len()..].trim_start(), message, "a setting", help))
}

/// `hardware TPU v5p`, `hardware NVIDIA H100`: the name of a chip in several words.
fn spaced(text: &str, rest: &str) -> Option<Habit> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let words: Vec<String> = rest.split_whitespace().map(str::to_lowercase).collect();
    let is_name = rest.starts_with(char::is_alphabetic) && rest.chars().all(is_part);
    if !is_name || words.len() < 2 || words.iter().any(|word| word == "from") {
        return None;
    }
    let is_maker = |word: &str| matches!(word, "nvidia" | "google" | "amd" | "aws" | "cloud");
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !is_maker(word)).collect();
    let help = format!("did you mean `{}`?", words.join("-"));
    let message = "the name of a chip has no spaces";
    Some(Habit::new(text, rest, message, "several words", help))
}

/// The options of `backward from`, with an example of each.
const OPTIONS: [(&str, &str); 4] = [
    ("microbatches", "microbatches=8 of B"),
    ("gradients", "gradients=f32"),
    ("until", "until=step"),
    ("weights", "weights=kept"),
];

/// `backward(loss)`, `backward y`, `backward from loss, wrt w`.
pub(super) fn backward(text: &str) -> Option<Habit> {
    let rest = after(text, "backward")?;
    let named = rest.trim_start_matches('(').trim_end_matches(')').trim();
    if first_word(named) != "from" {
        let from = if named.is_empty() { "Loss" } else { named };
        let help = format!("write `backward from {from}`");
        let found = if named.is_empty() { text } else { named };
        return Some(Habit::new(text, found, "`from` is missing", "after `backward from`", help));
    }
    let words = named.split(',').skip(1).map(|option| first_word(option.trim()));
    let mut unknown = words.filter(|word| !word.is_empty());
    let word = unknown.find(|word| OPTIONS.iter().all(|(known, _)| known != word))?;
    let near = OPTIONS.iter().find(|(known, _)| damerau_levenshtein(known, word) <= 2);
    let help = near.map_or_else(
        || {
            let examples = OPTIONS.map(|(_, example)| format!("`{example}`"));
            format!(
                "gradients are those of all parameters that are not `frozen`; the options are {}",
                examples.join(", ")
            )
        },
        |(_, example)| format!("did you mean `{example}`?"),
    );
    let message = format!("`{word}` is not an option of `backward`");
    Some(Habit::new(text, word, message, "unknown", help))
}

/// `optimizer adam over X, Y`, `optimizer adam(lr=1e-3)`, `optimizer adam lr=1e-3`.
pub(super) fn optimizer(text: &str, shapes: &Shapes) -> Option<Habit> {
    let rest = after(text, "optimizer")?;
    if let Some((name, over)) = rest.split_once(" over ") {
        return axes_of_state(text, name, over.trim(), shapes);
    }
    let (name, settings) = rest.split_once(['(', ' ']).filter(|(name, _)| !name.contains(','))?;
    if !settings.contains(['=', ')']) {
        return None;
    }
    let listed: Vec<String> = settings
        .split(|c: char| c == ',' || c == ')' || c.is_whitespace())
        .filter(|setting| !setting.is_empty())
        .map(|setting| setting.replace("learning_rate=", "rate=").replace("lr=", "rate="))
        .collect();
    let words = std::iter::once(name.to_lowercase()).chain(listed).collect::<Vec<_>>();
    let help = format!("write `optimizer {}`", words.join(", "));
    let message = "settings follow the optimizer after commas";
    Some(Habit::new(text, settings, message, "settings", help))
}

/// Axes as a list, `X, Y`, `(X, Y)`, `X and Y`, `X Y`: as in brackets they are one subscript.
/// A word is an axis by its capital, or since the mesh has it: `momentum` alone lacks its value.
fn axes_of_state(text: &str, optimizer: &str, over: &str, shapes: &Shapes) -> Option<Habit> {
    let (list, settings) = match over.split_once('=') {
        Some((before, _)) => over.split_at(before.rfind(',')?),
        None => (over, ""),
    };
    let words = list.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
    let axes: Vec<&str> = words.filter(|word| !matches!(*word, "" | "and")).collect();
    let is_axis = |axis: &&str| axis.starts_with(char::is_uppercase) || shapes.is_axis(axis);
    // The first one is an axis by its place; it may be misspelt.
    if axes.len() < 2 || !axes[1..].iter().all(is_axis) {
        return None;
    }
    let is_letters = axes.iter().all(|axis| axis.chars().all(char::is_uppercase));
    let axes = if is_letters { axes.concat() } else { format!("{{{}}}", axes.join(",")) };
    let help = format!("write `optimizer {} over {axes}{settings}`", optimizer.trim());
    Some(Habit::new(text, list, "several axes are one subscript, as in brackets", "axes", help))
}

/// `remat y`, `recompute`.
pub(super) fn recomputation(text: &str) -> Option<Habit> {
    let word = first_word(text);
    if !matches!(word, "remat" | "rematerialize" | "recompute") || text.contains('=') {
        return None;
    }
    let help = "write `checkpoint` at the end of a block: gradients compute its values again; \
        `checkpoint h, q` keeps what it names, `checkpoint only attention` computes only these \
        again";
    let message = "what gradients compute again is written as `checkpoint`";
    Some(Habit::new(text, word, message, "not a keyword", help))
}
