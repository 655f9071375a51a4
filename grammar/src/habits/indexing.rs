//! Elements and parts by their place: `In[0]`, `In[:, 2:4]`, `In[..., None]`; calls of modules.

use super::{Habit, Shapes, last_word};

/// `In[:, 2:4]`: brackets after a value in an expression, with places rather than axes.
pub(super) fn index(text: &str, shapes: &Shapes) -> Option<Habit> {
    let (target, expression) = text.split_once('=')?;
    let (before, rest) = expression.split_once('[')?;
    let (inside, _) = rest.split_once(']')?;
    let value = last_word(before);
    let dims = shapes.get(value)?;
    let entries: Vec<&str> = inside.split(',').map(str::trim).collect();
    let is_place = |entry: &&str| {
        entry.is_empty()
            || *entry == "None"
            || entry.starts_with("...")
            || entry.starts_with(|c: char| c.is_ascii_digit() || matches!(c, ':' | '-'))
    };
    if !entries.iter().any(is_place) {
        return None;
    }
    let chosen = entries.iter().zip(dims).find_map(|(entry, dim)| Some((part(entry)?, dim)));
    let help = match chosen {
        Some((Part { from, size: Some(size) }, dim)) => {
            format!("write `slice_{{{dim}->P}}({value}, {from})`, with `dim P={size}`")
        }
        Some((Part { from, size: None }, dim)) => format!(
            "write `slice_{{{dim}->P}}({value}, {from})`, with `dim P=…` as long as the part"
        ),
        None => format!("write `{value}`: dimensions align by name"),
    };
    let at = target.len() + 1 + before.len();
    let message = "brackets hold dimensions and axes, not places";
    let at = (at, at + inside.len() + 2);
    Some(Habit { at, ..Habit::new(text, "", message, "chooses elements", help) })
}

/// What an entry of an index keeps.
struct Part {
    from: u64,
    /// As far as it is written.
    size: Option<u64>,
}

/// `3`, `2:4`, `2:`, `:4`; `None` for what keeps all elements.
fn part(entry: &str) -> Option<Part> {
    let Some((from, to)) = entry.split_once(':') else {
        return entry.parse().ok().map(|from| Part { from, size: Some(1) });
    };
    let (from, to) = (from.trim(), to.trim());
    if from.is_empty() && to.is_empty() {
        return None;
    }
    let from = from.parse().unwrap_or(0);
    Some(Part { from, size: to.parse::<u64>().ok().and_then(|to| to.checked_sub(from)) })
}

/// `nn.LayerNorm(512)(x)`.
pub(super) fn module(text: &str) -> Option<Habit> {
    let (before, rest) = text.split_once(")(")?;
    let (head, _) = before.rsplit_once('(')?;
    let module = last_word(head);
    let (operand, _) = rest.split_once(')')?;
    let help = match module.to_lowercase().as_str() {
        "linear" | "dense" => {
            format!("declare `param W[D, F]`, and write `{operand} *D W`")
        }
        "embedding" | "embed" => {
            format!("declare `param Table[V, D]`, and write `take_V(Table, {operand})`")
        }
        "layernorm" | "rmsnorm" | "softmax" => {
            format!("write `{}_D({operand})`", module.to_lowercase())
        }
        other => format!("write a function of the value: `{other}({operand})`"),
    };
    let message = format!("`{module}(…)` is no value: there are no modules");
    Some(Habit::new(text, module, message, "a module", help))
}
