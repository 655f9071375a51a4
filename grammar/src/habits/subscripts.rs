//! Dimensions after the names of functions and values, as other notations write them:
//! `conv_H,W(x, w)`, `mean[H, W](x)`, `conv_{H:R, W:S}(x, w)`, `mean_{H,W} x`, `y_{B,H} = x`.

use super::{Habit, Shapes, arguments, closing, first_word, is_word, last_word};

/// Functions of other frameworks with dimensions in braces, and what to write for them.
const POOLS: [(&str, &str); 6] = [
    ("max_pool", "max"),
    ("max_pool1d", "max"),
    ("max_pool2d", "max"),
    ("avg_pool", "mean"),
    ("avg_pool1d", "mean"),
    ("avg_pool2d", "mean"),
];

/// A name with braces after it.
struct Braced<'t> {
    /// Where the name begins.
    start: usize,
    name: &'t str,
    /// Between the braces.
    inside: &'t str,
    /// After the braces.
    after: &'t str,
}

/// Dimensions after a name in another form than programs have.
pub(super) fn dims(text: &str, shapes: &Shapes) -> Option<Habit> {
    listed(text, shapes)
        .or_else(|| in_brackets(text, shapes))
        .or_else(|| braced(text).find_map(|found| in_braces(text, &found, shapes)))
}

/// `conv_H,W(x, w)`.
fn listed(text: &str, shapes: &Shapes) -> Option<Habit> {
    let call = |(open, _): (usize, &str)| {
        let before = &text[..open];
        let start = before.trim_end_matches(|c: char| is_word(c) || c == ',').len();
        let (name, list) = before[start..].split_once(',')?;
        let (function, first) = name.rsplit_once('_')?;
        let dims = || std::iter::once(first).chain(list.split(','));
        let is_call = !function.is_empty() && dims().all(|dim| shapes.is_dim(dim));
        let braces = format!("{function}_{{{}}}", dims().collect::<Vec<_>>().join(","));
        is_call.then_some((start, open, braces))
    };
    let (start, end, written) = text.match_indices('(').find_map(call)?;
    let message = "several dimensions of a function stand in braces";
    Some(replaced(text, (start, end), &written, message))
}

/// `mean[H, W](x)`.
fn in_brackets(text: &str, shapes: &Shapes) -> Option<Habit> {
    let call = |(end, _): (usize, &str)| {
        let open = text[..end].rfind('[')?;
        let function = last_word(&text[..open]);
        let start = open - function.len();
        let dims = arguments(&text[open + 1..end]);
        let is_call = text[..open].ends_with(function)
            && function.starts_with(char::is_alphabetic)
            && shapes.get(function).is_none()
            && !dims.is_empty()
            && dims.iter().all(|dim| shapes.is_dim(dim));
        is_call.then(|| (start, end + 1, format!("{function}_{}", suffix(&dims))))
    };
    let (start, end, written) = text.match_indices("](").find_map(call)?;
    let message = "the dimensions of a function follow a `_`";
    Some(replaced(text, (start, end), &written, message))
}

/// The names with braces after them, but those in brackets, whose braces hold axes.
fn braced(text: &str) -> impl Iterator<Item = Braced<'_>> {
    text.match_indices("_{").filter_map(|(at, _)| {
        let before = &text[..at];
        let name = last_word(before);
        let is_apart = before.matches('[').count() == before.matches(']').count();
        let is_named = before.ends_with(name) && name.starts_with(char::is_alphabetic);
        let (inside, after) = text[at + 2..].split_once('}')?;
        let found = Braced { start: at - name.len(), name, inside, after };
        (is_apart && is_named).then_some(found)
    })
}

/// Braces that are wrong where they stand, or hold no list of names.
fn in_braces(text: &str, found: &Braced<'_>, shapes: &Shapes) -> Option<Habit> {
    let Braced { start, name, inside, after } = *found;
    let end = text.len() - after.len();
    let dims = arguments(inside);
    let are_dims = !dims.is_empty() && dims.iter().all(|dim| shapes.is_dim(dim));
    let rest = after.trim_start();
    if rest.starts_with('(') {
        return of_call(text, found, shapes);
    }
    if rest.starts_with(['=', ':']) && !rest.starts_with("==") && are_dims && is_target(text, start)
    {
        let written = format!("{name}[{}]", dims.join(", "));
        let message = "the dimensions of a value stand in brackets";
        return Some(replaced(text, (start, end), &written, message));
    }
    if shapes.get(name).is_some() {
        let message =
            format!("`{name}` is a value, and only functions have dimensions after a `_`");
        return Some(replaced(text, (start, end), name, &message));
    }
    let is_operand = !rest.is_empty() && first_word(rest) == rest && shapes.get(rest).is_some();
    is_operand.then(|| {
        let written = format!("{name}_{{{inside}}}({rest})");
        replaced(text, (start, text.len()), &written, "a call has parentheses")
    })
}

/// `conv_{H:R, W:S}(x, w)`, `max_pool_{H,W}(x)`.
fn of_call(text: &str, found: &Braced<'_>, shapes: &Shapes) -> Option<Habit> {
    let Braced { start, name, inside, after } = *found;
    let end = text.len() - after.len();
    if inside.trim().is_empty() {
        let known = shapes.of_text(operand_of(after)).unwrap_or_default();
        let dim = known.last().map_or("D", String::as_str);
        let message = format!("no dimension stands in the braces after `{name}`");
        let help = format!("write which ones it goes along, such as `{name}_{dim}(…)`");
        let at = (start, end);
        return Some(Habit { at, ..Habit::new(text, "", message, "of which dimensions?", help) });
    }
    if !is_list(inside) {
        let dims = in_order(inside);
        let written = format!("{name}_{}", suffix(&dims));
        let message = "the braces after a function hold names, with commas between them";
        let are_dims = !dims.is_empty() && dims.iter().all(|dim| shapes.is_dim(dim));
        return are_dims.then(|| replaced(text, (start, end), &written, message));
    }
    let pool = POOLS.iter().find(|(pool, _)| *pool == name.to_lowercase());
    let message = format!("`{name}` is not a function");
    let at = (start, start + name.len());
    if let Some((_, reduction)) = pool {
        let operand = operand_of(after);
        let dim = arguments(inside).first().copied().unwrap_or("H");
        let help = format!(
            "write windows along each dimension, of which a reduction is taken: \
                `{reduction}_R(windows_{{{dim}->P,R}}({operand}, stride=2))`"
        );
        return Some(Habit { at, ..Habit::new(text, "", message, "unknown", help) });
    }
    let meant = super::options::known_as(name)?;
    let help = format!("write `{}{meant}{}`", &text[..start], &text[start + name.len()..]);
    Some(Habit { at, ..Habit::new(text, "", message, "unknown", help) })
}

/// Whether braces hold names with commas or arrows between them.
fn is_list(inside: &str) -> bool {
    let is_name = |c: char| is_word(c) || matches!(c, '.' | '?');
    let arrows = inside.replace("->", ",").replace('→', ",");
    arguments(&arrows).iter().all(|part| part.chars().all(is_name))
}

/// The first operand of the call whose parentheses a text begins with.
fn operand_of(text: &str) -> &str {
    let inside = text.trim_start().strip_prefix('(').unwrap_or_default();
    arguments(&inside[..closing(inside)]).first().copied().unwrap_or("x")
}

/// The names of a list; of pairs `H:R, W:S` the first ones before the others.
fn in_order(inside: &str) -> Vec<&str> {
    let names = |text| -> Vec<&str> {
        let words = str::split(text, |c: char| !is_word(c));
        words.filter(|word| !word.is_empty()).collect()
    };
    let pairs: Option<Vec<(&str, &str)>> =
        arguments(inside).into_iter().map(|part| part.split_once(':')).collect();
    match pairs {
        Some(pairs) if !pairs.is_empty() => {
            let (first, second): (Vec<&str>, Vec<&str>) = pairs.into_iter().unzip();
            first.into_iter().chain(second).flat_map(names).collect()
        }
        _ => names(inside),
    }
}

/// Whether a name is what the statement defines or declares.
fn is_target(text: &str, start: usize) -> bool {
    let before = text[..start].trim_end();
    before.is_empty() || matches!(before, "input" | "param" | "state" | "output" | "carry" | "next")
}

/// `{H,W}`, or `H` alone.
fn suffix(dims: &[&str]) -> String {
    match dims {
        [dim] => (*dim).to_owned(),
        several => format!("{{{}}}", several.join(",")),
    }
}

/// A part of the statement that is written otherwise.
fn replaced(text: &str, at: (usize, usize), written: &str, message: &str) -> Habit {
    let help = format!("write `{}{written}{}`", &text[..at.0], &text[at.1..]);
    Habit { at, ..Habit::new(text, "", message, "these dimensions", help) }
}
