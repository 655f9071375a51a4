//! Options by which other frameworks name dimensions: `softmax(x, dim=-1)`,
//! `mean(x, axis=0, keepdims=True)`, `x.sum(dim=1)`.

use super::products::last_operand;
use super::{Habit, Shapes, arguments, first_word, last_word};

/// The options. A call keeps none of them.
const OPTIONS: [&str; 5] = ["keepdims", "keepdim", "axis", "axes", "dim"];

/// Functions along dimensions that programs write as other frameworks do.
const ALONG: [&str; 12] = [
    "sum",
    "mean",
    "max",
    "min",
    "softmax",
    "logsumexp",
    "layernorm",
    "rmsnorm",
    "argmax",
    "cumsum",
    "revcumsum",
    "take",
];

/// Functions of other frameworks with another name here.
const RENAMED: [(&str, &str); 9] = [
    ("amax", "max"),
    ("amin", "min"),
    ("any", "max"),
    ("all", "min"),
    ("average", "mean"),
    ("layer_norm", "layernorm"),
    ("rms_norm", "rmsnorm"),
    ("gather", "take"),
    ("index_select", "take"),
];

/// Functions of other frameworks that are written out.
const WRITTEN_OUT: [&str; 6] = ["log_softmax", "norm", "normalize", "var", "std", "argmin"];

/// Functions of other frameworks that put values one after another.
const JOINS: [&str; 5] = ["concatenate", "concat", "cat", "stack", "hstack"];

/// Functions of other frameworks that are left out.
const LEFT_OUT: [&str; 7] =
    ["squeeze", "unsqueeze", "expand_dims", "transpose", "permute", "swapaxes", "moveaxis"];

/// Whether an argument is one of these options.
pub(crate) fn names_dims(argument: &str) -> bool {
    option_of(argument).is_some_and(|name| OPTIONS.contains(&name))
}

/// The `axis` of `axis=-1`.
fn option_of(argument: &str) -> Option<&str> {
    let (name, value) = argument.split_once('=')?;
    let name = name.trim();
    let is_option = !name.is_empty() && first_word(name) == name && !value.starts_with('=');
    is_option.then_some(name)
}

/// A call with such an option.
struct Call<'t> {
    /// Without what owns it and without its suffix.
    function: String,
    /// The dimensions after its name, as they are written.
    suffix: Option<&'t str>,
    operands: Vec<&'t str>,
    /// What the option names, or a number among the operands.
    place: Option<&'t str>,
    /// Whether something stands before it that binds.
    is_operand: bool,
}

/// `softmax(x, dim=-1)`, `sum(x, keepdims=True)`.
pub(super) fn option(text: &str, shapes: &Shapes) -> Option<Habit> {
    let option = OPTIONS.into_iter().find(|option| place_of(text, option).is_some())?;
    let at = place_of(text, option)?;
    let call = call_around(text, at, shapes)?;
    let message = format!("`{option}` is no option: dimensions are named, after a `_`");
    let help = call.help(option.starts_with("keep"), shapes);
    let at = (at, at + option.len());
    Some(Habit { at, ..Habit::new(text, "", message, "an option", help) })
}

/// What programs call a function of other frameworks that goes along dimensions.
pub(super) fn known_as(function: &str) -> Option<&'static str> {
    let lower = function.to_lowercase();
    RENAMED.iter().find(|(name, _)| *name == lower).map(|(_, here)| *here)
}

/// Where an option stands.
fn place_of(text: &str, option: &str) -> Option<usize> {
    let is_option = |at: &usize| {
        let after = text[at + option.len()..].trim_start();
        let is_given = after.starts_with('=') && !after.starts_with("==");
        is_given && text[..*at].trim_end().ends_with([',', '('])
    };
    text.match_indices(option).map(|(at, _)| at).find(is_option)
}

/// Where the parenthesis is that is open at the end of a text.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut is_open = |c: char| match c {
        ')' => {
            depth += 1;
            false
        }
        '(' if depth == 0 => true,
        '(' => {
            depth -= 1;
            false
        }
        _ => false,
    };
    text.char_indices().rev().find(|(_, c)| is_open(*c)).map(|(at, _)| at)
}

/// The call whose options hold the place `at`.
fn call_around<'t>(text: &'t str, at: usize, shapes: &Shapes) -> Option<Call<'t>> {
    let open = opening(&text[..at])?;
    let inside = &text[open + 1..][..super::closing(&text[open + 1..])];
    let after = text[open + 1 + inside.len()..].strip_prefix(')').unwrap_or("");
    let (before, function, suffix) = head(text[..open].trim_end(), shapes);
    let mut place = None;
    let mut operands = Vec::new();
    for argument in arguments(inside) {
        match option_of(argument) {
            Some("axis" | "axes" | "dim") => place = argument.split_once('=').map(|(_, to)| to),
            Some(_) => {}
            None if places(argument).is_some() => place = place.or(Some(argument)),
            None => operands.push(argument),
        }
    }
    // `nn.Softmax(dim=-1)(x)`.
    if let (true, Some(rest)) = (operands.is_empty(), after.strip_prefix('(')) {
        operands.extend(arguments(&rest[..super::closing(rest)]));
    }
    let mut before = before;
    if let Some(owned) = before.strip_suffix('.') {
        let owned = owned.trim_end();
        let owner = last_operand(owned);
        before = &owned[..owned.len() - owner.len()];
        if operands.is_empty() && !owner.is_empty() {
            operands.push(inner(owner));
        }
    }
    let before = before.trim_end();
    let is_operand = !before.is_empty() && !before.ends_with(['=', '(', ',']);
    Some(Call { function, suffix, operands, place, is_operand })
}

/// What stands before a call, its function, and the dimensions after the name of this.
fn head<'t>(text: &'t str, shapes: &Shapes) -> (&'t str, String, Option<&'t str>) {
    let (name, braces) = match text.strip_suffix('}').and_then(|_| text.rfind("_{")) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let whole = last_word(name);
    let before = &name[..name.len() - whole.len()];
    if braces.is_some() || is_listed(&whole.to_lowercase()) {
        return (before, whole.to_lowercase(), braces);
    }
    let mut parts = whole.match_indices('_').map(|(at, _)| (&whole[..at], &whole[at + 1..]));
    let is_split = |(function, dim): &(&str, &str)| {
        shapes.is_dim(dim) || is_listed(&function.to_lowercase()) && !dim.is_empty()
    };
    match parts.find(is_split) {
        Some((function, dim)) => (before, function.to_lowercase(), Some(dim)),
        None => (before, whole.to_lowercase(), None),
    }
}

fn is_listed(function: &str) -> bool {
    ALONG.contains(&function)
        || WRITTEN_OUT.contains(&function)
        || RENAMED.iter().any(|(name, _)| *name == function)
}

/// What stands in the parentheses around a text, if there are some.
fn inner(text: &str) -> &str {
    let inside = text.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
    inside.filter(|inside| super::closing(inside) == inside.len()).unwrap_or(text)
}

/// The places of `-1`, `(0, 1)`, `[0, 1]`.
fn places(text: &str) -> Option<Vec<i64>> {
    let list = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
    let numbers = list.split(',').map(str::trim).filter(|number| !number.is_empty());
    let numbers: Vec<i64> = numbers.map(|number| number.parse().ok()).collect::<Option<_>>()?;
    (!numbers.is_empty()).then_some(numbers)
}

impl Call<'_> {
    /// What to write.
    fn help(&self, keeps: bool, shapes: &Shapes) -> String {
        let operand = self.operands.first().copied().unwrap_or("x");
        if JOINS.contains(&&*self.function) {
            return "write `concat_{P,Q->S}(a, b)`: the dimension of each part, and that of the \
                    whole"
                .to_owned();
        }
        if LEFT_OUT.contains(&&*self.function) {
            return format!("write `{operand}`: dimensions align by name");
        }
        let known = self.known_dims(operand, shapes);
        let suffix = self.suffix.map(str::to_owned).or_else(|| known.clone());
        let Some(call) = self.written(suffix.as_deref().unwrap_or("D"), operand) else {
            return "leave it out: dimensions go by name; `shardwise docs operations` has the \
                    functions"
                .to_owned();
        };
        match (suffix.is_some(), keeps && self.place.is_none()) {
            (_, true) => format!("write `{call}`: names align, and nothing is kept"),
            (true, false) => format!("write `{call}`"),
            (false, false) => {
                format!("write `{call}`, with the name of the dimension for `D`")
            }
        }
    }

    /// The suffix of the dimensions that the call names by their place, or the last.
    fn known_dims(&self, operand: &str, shapes: &Shapes) -> Option<String> {
        let place = self.place.unwrap_or("-1").trim();
        let name = place.trim_matches(['\'', '"']);
        if shapes.is_dim(name) {
            return Some(name.to_owned());
        }
        let dims = shapes.of_text(operand)?;
        let count = i64::try_from(dims.len()).ok()?;
        let at = |place: i64| usize::try_from(if place < 0 { place + count } else { place }).ok();
        let named =
            places(place)?.into_iter().map(|place| dims.get(at(place)?).map(String::as_str));
        match named.collect::<Option<Vec<_>>>()?[..] {
            [dim] => Some(dim.to_owned()),
            ref several => Some(format!("{{{}}}", several.join(","))),
        }
    }

    /// The call along these dimensions; nothing for a function that programs do not have.
    fn written(&self, dims: &str, x: &str) -> Option<String> {
        let renamed = RENAMED.iter().find(|(name, _)| *name == self.function);
        let function = renamed.map_or(&*self.function, |(_, here)| *here);
        if ALONG.contains(&function) {
            let operands = if self.operands.is_empty() { x } else { &self.operands.join(", ") };
            return Some(format!("{function}_{dims}({operands})"));
        }
        let call = match function {
            "log_softmax" => format!("{x} - logsumexp_{dims}({x})"),
            "norm" => return Some(format!("sqrt(sum_{dims}(square({x})))")),
            "normalize" => format!("({x}) * rsqrt(sum_{dims}(square({x})))"),
            "var" => return Some(format!("mean_{dims}(square({x} - mean_{dims}({x})))")),
            "std" => return Some(format!("sqrt(mean_{dims}(square({x} - mean_{dims}({x}))))")),
            "argmin" => return Some(format!("argmax_{dims}(-({x}))")),
            _ => return None,
        };
        let call = if first_word(x) == x {
            call.replace(&format!("({x}) *"), &format!("{x} *"))
        } else {
            call
        };
        Some(if self.is_operand { format!("({call})") } else { call })
    }
}
