//! Products and powers: `In @ W`, `einsum(…)`, `In × W`, `x^2`.

use super::{Habit, Shapes, call, first_word, last_word};

/// `einsum('bd,df->bf', In, W)`: letters of operands whose dimensions are known become these.
pub(super) fn einsum(text: &str, shapes: &Shapes) -> Option<Habit> {
    let (before, arguments, _) = call(text, "einsum")?;
    let message = "`einsum` is written as a product of the operands";
    let help = einsum_line(before, arguments, shapes)
        .unwrap_or_else(|| "name what is summed after the `*`: `Out = In *D W`".to_owned());
    Some(Habit::new(text, "einsum", message, "a product", help))
}

fn einsum_line(before: &str, arguments: &str, shapes: &Shapes) -> Option<String> {
    let mut parts = arguments.split(['\'', '"']).filter(|part| !part.trim().is_empty());
    let (spec, operands) = (parts.next()?, parts.next()?);
    let (inputs, output) = spec.split_once("->")?;
    let inputs: Vec<&str> = inputs.split(',').map(str::trim).collect();
    let operands: Vec<&str> =
        operands.split(',').map(str::trim).filter(|operand| !operand.is_empty()).collect();
    let name = |letter: char| {
        let known = inputs.iter().zip(&operands).find_map(|(input, operand)| {
            let place = input.chars().position(|c| c == letter)?;
            shapes.get(operand)?.get(place).cloned()
        });
        known.unwrap_or_else(|| letter.to_uppercase().to_string())
    };
    let names = |letters: &mut dyn Iterator<Item = char>| letters.map(name).collect::<Vec<_>>();
    let [left, right] = inputs[..] else { return None };
    let [first, second] = operands[..] else { return None };
    let summed = names(&mut left.chars().filter(|c| right.contains(*c) && !output.contains(*c)));
    let kept = names(&mut output.trim().chars());
    let target = match last_word(before.split('[').next()?.trim_end_matches(['=', ' ', '.'])) {
        "" | "jnp" | "np" | "torch" => first_word(before),
        target => target,
    };
    let (kept, summed) = (kept.join(", "), summed.join(","));
    Some(format!("write `{target}[{kept}] = {first} *{summed} {second}`"))
}

/// `In @ W`, `In × W`, `In x W`, `In W`.
pub(super) fn product(text: &str, shapes: &Shapes) -> Option<Habit> {
    let (start, end) = sign(text, shapes)?;
    let (left, right) = (text[..start].trim(), text[end..].trim_start());
    let symbol = &text[start..end];
    let (message, at) = if symbol.trim().is_empty() {
        let right_start = text.len() - right.len();
        let operand = right_start + first_word(right).len();
        ("two values stand side by side".to_owned(), (right_start, operand))
    } else {
        (format!("`{symbol}` is no operator: a product is written with `*`"), (start, end))
    };
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let (first, second) = (last_operand(left), first_operand(right));
    if is_number(first) || is_number(second) {
        let swapped = left.strip_suffix(first).filter(|_| is_number(first) && !is_number(second));
        let rest = right.strip_prefix(second).unwrap_or_default();
        let help = match swapped {
            Some(before) => format!("write `{before}{second} * {first}{rest}`"),
            None => format!("write `{left} * {right}`"),
        };
        return Some(Habit { at, message, label: "not a product", help });
    }
    let help = match shapes.shared(last_word(left), first_word(right)) {
        Some(dims) => format!("write `{left} *{dims} {right}`, which sums over `{dims}`"),
        None => format!("write `{left} *D {right}`, with the dimension to sum over for `D`"),
    };
    Some(Habit { at, message, label: "not a product", help })
}

/// The place of the sign of a product, which may be white space between two values.
fn sign(text: &str, shapes: &Shapes) -> Option<(usize, usize)> {
    let symbol = ["@", "×"].into_iter().find_map(|symbol| Some((symbol, text.find(symbol)?)));
    if let Some((symbol, at)) = symbol {
        return Some((at, at + symbol.len()));
    }
    let is_value = |word: &str| shapes.get(word).is_some();
    text.match_indices(' ').find_map(|(at, _)| {
        let right = text[at..].trim_start();
        let right_start = text.len() - right.len();
        if text[..at].ends_with(' ') || !is_value(last_word(&text[..at])) {
            return None;
        }
        match right.strip_prefix("x ") {
            Some(operand) if is_value(first_word(operand.trim_start())) => {
                Some((right_start, right_start + 1))
            }
            _ => is_value(first_word(right)).then_some((at, at + 1)),
        }
    })
}

/// `x^2`, `x**2`, `W^T`.
pub(super) fn power(text: &str, shapes: &Shapes) -> Option<Habit> {
    let symbol = ["**", "^"].into_iter().find(|symbol| text.contains(symbol))?;
    let message = format!("`{symbol}` is no operator: a power is written as a function");
    if matches!(first_word(text), "dim" | "mesh") {
        let message = format!("`{symbol}` is no operator: sizes have no powers");
        let help = "write the number, or a product such as `2*2*2`";
        return Some(Habit::new(text, symbol, message, "a power", help));
    }
    let (base, exponent) = text.split_once(symbol)?;
    let base = last_operand(base);
    let exponent = exponent.trim_start();
    let is_transposed = ["T", "\\top", "⊤", "{T}", "{\\top}"].iter().any(|sign| {
        let after = exponent.strip_prefix(sign);
        after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    });
    if symbol == "^" && is_transposed && shapes.get("T").is_none() {
        let message = "`^T` is no operator: there are no transposes";
        let help = format!("write `{base}`: dimensions go by name, so nothing is transposed");
        return Some(Habit::new(text, symbol, message, "a transpose", help));
    }
    let inner = base.strip_prefix('(').and_then(|base| base.strip_suffix(')')).unwrap_or(base);
    let help = format!("write `{}`", power_of(inner, first_operand(exponent)));
    Some(Habit::new(text, symbol, message, "a power", help))
}

/// The operand that a text begins with, with its sign.
fn first_operand(text: &str) -> &str {
    let inside = text.trim_start().strip_prefix('(');
    if let Some(inside) = inside {
        return inside[..super::closing(inside)].trim();
    }
    let start = text.len() - text.trim_start_matches('-').len();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '\'');
    let end = text[start..].find(|c: char| !is_part(c)).map_or(text.len(), |end| start + end);
    match text[end..].strip_prefix('(').filter(|_| end > start) {
        Some(inside) => text.get(..end + super::closing(inside) + 2).unwrap_or(text),
        None => &text[..end],
    }
}

/// `pow(x, 3.0)`, or the function of this power; numbers have a point.
fn power_of(base: &str, exponent: &str) -> String {
    let number: Option<f64> = match exponent.split_once('/') {
        Some((above, below)) => {
            let (above, below) = (above.trim().parse::<f64>(), below.trim().parse::<f64>());
            above.ok().zip(below.ok()).map(|(above, below)| above / below)
        }
        None => exponent.parse().ok(),
    };
    let is = |value: f64| number.is_some_and(|number| (number - value).abs() < 1e-9);
    let known = [(2.0, "square"), (0.5, "sqrt"), (-0.5, "rsqrt")];
    if let Some((_, function)) = known.into_iter().find(|(value, _)| is(*value)) {
        return format!("{function}({base})");
    }
    if is(-1.0) {
        return format!("1.0 / {base}");
    }
    match (base.parse::<f64>(), number) {
        (Ok(base), None) if base > 0.0 => format!("exp({:.7} * {exponent})", base.ln()),
        (_, Some(number)) => format!("pow({base}, {number:?})"),
        (_, None) if exponent.is_empty() => format!("pow({base}, 3.0)"),
        (_, None) => format!("pow({base}, {exponent})"),
    }
}

/// The operand that a text ends with: a value, a call, or what stands in parentheses.
pub(super) fn last_operand(text: &str) -> &str {
    let text = text.trim_end();
    let mut depth = 0_usize;
    let mut is_outside = |(_, c): &(usize, char)| {
        match c {
            ')' | ']' => depth += 1,
            '(' | '[' => depth = depth.saturating_sub(1),
            _ => return depth == 0 && !(c.is_alphanumeric() || matches!(c, '_' | '.' | '\'')),
        }
        false
    };
    let before = text.char_indices().rev().find(|at| is_outside(at));
    before.map_or(text, |(at, c)| &text[at + c.len_utf8()..])
}
