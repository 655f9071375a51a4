//! Shardings: `P(None, 'Y')`, `Shard(0)`, `In[B@X]`, `In(B_X, D)`, `In[B, D]: bf16`.

use super::{Habit, Shapes, call, first_word, last_word};

/// Names of JAX's constructors of shardings.
const SPECS: [&str; 3] = ["PartitionSpec", "NamedSharding", "P"];

/// `P(None, 'Y')`: the brackets with the same meaning.
pub(super) fn partition_spec(text: &str, shapes: &Shapes) -> Option<Habit> {
    let (name, before, entries) = SPECS
        .iter()
        .find_map(|name| call(text, name).map(|(before, args, _)| (*name, before, args)))?;
    let message = format!("`{name}(…)` is written as subscripts: axes stand at the dimensions");
    let help = format!("write `{}`", as_brackets(before, entries, shapes));
    Some(Habit::new(text, name, message, "a sharding", help))
}

/// `input In: Shard(0)`, a placement of `PyTorch`: an axis at the dimension with that number.
pub(super) fn placement(text: &str, shapes: &Shapes) -> Option<Habit> {
    let (before, number, _) = call(text, "Shard").filter(|_| declares(text))?;
    let number = number.trim().trim_start_matches("dim=").parse().ok().filter(|at| *at < 6)?;
    let entries = (0..=1.max(number)).map(|at: usize| if at == number { "X" } else { "None" });
    let entries = entries.collect::<Vec<_>>().join(", ");
    let message = "`Shard(…)` is written as a subscript: the axis stands at the dimension";
    let help = format!(
        "write `{}`, with the dimensions of the array and the axis that splits that one",
        as_brackets(before, &entries, shapes)
    );
    Some(Habit::new(text, "Shard", message, "a sharding", help))
}

/// The value that stands before a sharding, with its dimensions where they are known.
fn as_brackets(before: &str, entries: &str, shapes: &Shapes) -> String {
    let after_keyword = before.split(['=', '[', ',', ':']).next().unwrap_or(before).trim();
    let value = last_word(after_keyword);
    let value = if value.is_empty() { "W" } else { value };
    let written = written_dims(before);
    let dims = if written.is_empty() {
        shapes.get(value).map(<[String]>::to_vec).unwrap_or_default()
    } else {
        written
    };
    format!("{value}[{}]", brackets_of(entries, &dims).join(", "))
}

/// Whether a statement declares arrays.
fn declares(text: &str) -> bool {
    matches!(first_word(text), "input" | "param" | "frozen" | "state" | "output")
}

/// The dimensions in the brackets at the end of a text, without subscripts.
fn written_dims(before: &str) -> Vec<String> {
    let Some((_, list)) = before.trim_end().rsplit_once('[') else { return Vec::new() };
    let Some(list) = list.strip_suffix(']') else { return Vec::new() };
    list.split(',').map(|dim| dim.split('_').next().unwrap_or(dim).trim().to_owned()).collect()
}

/// One dimension for each entry; dimensions that are not known are called `I`, `J`, `K`, ….
fn brackets_of(entries: &str, dims: &[String]) -> Vec<String> {
    let joined = entries.replace(['(', ')'], "");
    let entries = split_entries(entries);
    let entries = if entries.is_empty() { vec![joined] } else { entries };
    let letters = ["I", "J", "K", "L", "M", "N"];
    entries
        .iter()
        .enumerate()
        .map(|(place, entry)| {
            let letter = letters.get(place).copied().unwrap_or("I");
            let dim = dims.get(place).map_or(letter, String::as_str);
            let axes: Vec<&str> = entry
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|axis| !axis.is_empty() && *axis != "None" && *axis != "mesh")
                .collect();
            match axes[..] {
                [] => dim.to_owned(),
                [axis] => format!("{dim}_{axis}"),
                _ => format!("{dim}_{{{}}}", axes.join(",")),
            }
        })
        .collect()
}

/// The parts between commas outside parentheses.
fn split_entries(text: &str) -> Vec<String> {
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in text.chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// Forms of declarations with other signs.
pub(super) fn brackets(text: &str) -> Option<Habit> {
    if !declares(text) {
        return None;
    }
    subscript_sign(text)
        .or_else(|| parentheses(text))
        .or_else(|| dtype_after(text))
        .or_else(|| dtype_first(text))
}

/// `In[B@X, D]`, `In[B:X, D]`.
fn subscript_sign(text: &str) -> Option<Habit> {
    let open = text.find('[')?;
    let list = &text[open..=open + text[open..].find(']')?];
    let sign = ["@", ":", "/"].into_iter().find(|sign| list.contains(sign))?;
    let message = format!("`{sign}` in brackets: the axes of a dimension follow a `_`");
    let help = format!("write `{}`", text.replace(list, &list.replace(sign, "_")));
    Some(Habit::new(text, list, message, "a sharding", help))
}

/// `input In(B_X, D)`, `input In[B_(X,Y), D]`.
fn parentheses(text: &str) -> Option<Habit> {
    let (before, after) = text.split_once('(')?;
    if before.contains('=') {
        return None;
    }
    let list = after.split_once(')')?.0;
    let written = format!("({list})");
    if before.ends_with('_') {
        let help = format!("write `{}`", text.replace(&written, &format!("{{{list}}}")));
        return Some(Habit::new(text, &written, "several axes stand in braces", "axes", help));
    }
    if before.rfind('[') > before.rfind(']') {
        let message = "axes of a dimension follow a `_`";
        let help = format!("write `{}`", with_subscripts(text));
        return Some(Habit::new(text, &written, message, "axes", help));
    }
    let help = format!("write `{}`", text.replace(&written, &format!("[{list}]")));
    let message = "dimensions stand in brackets, not in parentheses";
    Some(Habit::new(text, &written, message, "dimensions", help))
}

/// `In[B(X), D(Y,Z)]` with the subscripts `_X` and `_{Y,Z}`.
fn with_subscripts(text: &str) -> String {
    let mut parts = text.split('(');
    let mut written = parts.next().unwrap_or_default().trim_end().to_owned();
    for part in parts {
        let (axes, after) = part.split_once(')').unwrap_or((part, ""));
        let axes = axes.trim();
        let subscript =
            if axes.contains(',') { format!("_{{{axes}}}") } else { format!("_{axes}") };
        written.push_str(&subscript);
        written.push_str(after);
    }
    written
}

/// `input In[B_X, D]: bf16`, `input In[D] bf16 {U_X}`.
fn dtype_after(text: &str) -> Option<Habit> {
    let (name, rest) = text.split_once('[')?;
    let (dims, after) = rest.split_once(']')?;
    let (after, pending) = match after.split_once('{') {
        Some((before, pending)) => {
            let (pending, end) = pending.split_once('}')?;
            (format!("{before}{end}"), format!(" {{{pending}}}"))
        }
        None => (after.to_owned(), String::new()),
    };
    let after = after.trim();
    let dtype = after.strip_prefix(':').unwrap_or(after).trim();
    let is_dtype =
        first_word(dtype) == dtype && (after.starts_with(':') || looks_like_dtype(dtype));
    if dtype.is_empty() || !is_dtype {
        return None;
    }
    let help = format!("write `{}: {dtype}[{dims}]{pending}`", name.trim_end());
    let message = "the dtype stands before the brackets";
    let from = text.len() - rest.len() + dims.len();
    let at = from + text[from..].find(dtype)?;
    Some(Habit { at: (at, at + dtype.len()), message: message.into(), label: "a dtype", help })
}

/// `input f32 In[B_X, D]`.
fn dtype_first(text: &str) -> Option<Habit> {
    let (role, rest) = text.split_once(' ')?;
    let (dtype, tensor) = rest.trim_start().split_once(' ')?;
    let (name, brackets) = tensor.trim().split_once('[')?;
    if !looks_like_dtype(dtype) || first_word(name) != name.trim_end() {
        return None;
    }
    let help = format!("write `{role} {}: {dtype}[{brackets}`", name.trim_end());
    Some(Habit::new(text, dtype, "the dtype stands after the name", "a dtype", help))
}

/// Whether a word looks like a dtype of any framework: a kind of number, and its bits.
fn looks_like_dtype(word: &str) -> bool {
    let kind = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let kinds = ["bf", "bfloat", "f", "fp", "float", "i", "int", "s", "u", "uint"];
    kind.len() < word.len() && kinds.contains(&kind)
}
