//! Signs of text editors, `x − y`, and shapes as arguments, `reshape(x, (4, 16))`.

use super::{Habit, Shapes, arguments, call, first_word, last_word};

/// Signs that look like operators, and the operator that is meant.
const SIGNS: [(char, &str); 13] = [
    ('−', "-"),
    ('–', "-"),
    ('—', "-"),
    ('－', "-"),
    ('÷', "/"),
    ('∕', "/"),
    ('／', "/"),
    ('∗', "*"),
    ('⊙', "*"),
    ('∘', "*"),
    ('＊', "*"),
    ('＋', "+"),
    ('＝', "="),
];

/// `x − y`, `x ÷ y`, `x ⊙ y`.
pub(super) fn unicode(text: &str) -> Option<Habit> {
    let meant = |c: char| SIGNS.iter().find(|(sign, _)| *sign == c).map(|(_, meant)| *meant);
    let (sign, operator) = text.chars().find_map(|c| Some((c, meant(c)?)))?;
    let written: String = text
        .chars()
        .flat_map(|c| meant(c).map_or_else(|| vec![c], |meant| meant.chars().collect()))
        .collect();
    let message = format!("`{sign}` is another sign than `{operator}`");
    let help = format!("write `{written}`");
    Some(Habit::new(text, &sign.to_string(), message, "looks like an operator", help))
}

/// Functions of other frameworks whose arguments are shapes, and the value of those that fill.
const SHAPED: [(&str, &str); 6] = [
    ("reshape", ""),
    ("view", ""),
    ("zeros", "0.0"),
    ("ones", "1.0"),
    ("full", ""),
    ("empty", "0.0"),
];

/// Names for the dimensions of a shape.
const DIMS: [&str; 6] = ["P", "Q", "R", "S", "U", "V"];

/// `reshape(x, (4, 16))`, `zeros((4, 4))`.
pub(super) fn shape(text: &str, shapes: &Shapes) -> Option<Habit> {
    let found = SHAPED.iter().find_map(|(name, fill)| Some((*name, *fill, call(text, name)?)));
    let (name, fill, (before, inside, _)) = found?;
    let all = arguments(inside);
    let tuple = *all.iter().find(|argument| argument.starts_with(['(', '[']))?;
    let sizes = arguments(tuple.trim_matches(['(', ')', '[', ']']));
    let operand = all.iter().find(|argument| **argument != tuple && !argument.contains('='));
    let owner = before.strip_suffix('.').map(last_word).filter(|name| shapes.get(name).is_some());
    let value = match (name, fill) {
        ("full", _) => operand.copied().unwrap_or("0.0").to_owned(),
        (_, "") => format!("reshape({})", operand.copied().or(owner).unwrap_or("x")),
        (_, fill) => fill.to_owned(),
    };
    let (target, declared) = result(before, &sizes, shapes);
    let message = "a shape is no argument: it is the brackets of the result";
    let help = format!("write `{target} = {value}`{declared}");
    Some(Habit::new(text, tuple, message, "a shape", help))
}

/// The result with brackets for these sizes, and the dimensions that must be declared.
fn result(before: &str, sizes: &[&str], shapes: &Shapes) -> (String, String) {
    let target = before.split_once('=').map_or("y", |(target, _)| target.trim());
    if target.ends_with(']') {
        return (target.to_owned(), String::new());
    }
    let mut free = DIMS.into_iter().filter(|name| !shapes.is_dim(name));
    let mut declared = Vec::new();
    let mut dim = |size: &&str| {
        if shapes.is_dim(size) {
            return (*size).to_owned();
        }
        let name = free.next().unwrap_or("P");
        declared.push(match size.parse::<u64>() {
            Ok(size) => format!("{name}={size}"),
            Err(_) => format!("{name}=…"),
        });
        name.to_owned()
    };
    let dims: Vec<String> = sizes.iter().map(&mut dim).collect();
    let target = if first_word(target).is_empty() { "y" } else { target };
    let declared = match &declared[..] {
        [] => String::new(),
        some => format!(", with `dim {}`", some.join(", ")),
    };
    (format!("{target}[{}]", dims.join(", ")), declared)
}
