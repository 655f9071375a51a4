//! Lines as `black` breaks them: at the last bracket, then one argument a line.

/// The longest line.
pub(in crate::export) const WIDTH: usize = 88;

/// A line at an indentation, broken where it is too long.
pub(in crate::export) fn line(indent: usize, text: &str) -> String {
    let flat = format!("{}{text}\n", " ".repeat(indent));
    if flat.trim_end().chars().count() <= WIDTH {
        return flat;
    }
    broken(indent, text).unwrap_or(flat)
}

/// A line broken at its last bracket; `None` where it has none, or does not end with it.
fn broken(indent: usize, text: &str) -> Option<String> {
    let body_end = text.trim_end_matches([',', ':']);
    let close = body_end.chars().next_back().filter(|c| ")]}".contains(*c))?;
    let open = opening(body_end)?;
    let inside = &body_end[open + 1..body_end.len() - close.len_utf8()];
    let (head, tail) = (&text[..=open], &text[body_end.len() - 1..]);
    if inside.is_empty() {
        return None;
    }
    let pad = " ".repeat(indent);
    let whole = format!("{pad}    {inside}");
    let parts = arguments(inside);
    let is_magic = inside.trim_end().ends_with(',');
    let body = if whole.chars().count() <= WIDTH && !is_magic {
        format!("{whole}\n")
    } else if parts.len() == 1 && !is_magic {
        line(indent + 4, inside)
    } else {
        parts.iter().map(|part| line(indent + 4, &format!("{part},"))).collect()
    };
    Some(format!("{pad}{head}\n{body}{pad}{tail}\n"))
}

/// The place of the bracket that the last one of a text closes.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (place, letter) in text.char_indices().rev() {
        match letter {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(place);
        }
    }
    None
}

/// The parts of a text between commas outside brackets and quotes.
fn arguments(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let mut quoted = false;
    let mut parts = vec![String::new()];
    for letter in text.chars() {
        quoted ^= letter == '"';
        match letter {
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    let parts = parts.into_iter().map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

/// A text from outside, such as the name of a file, within a string: it ends no string and begins
/// no escape, and the string reads as the text.
pub(in crate::export) fn in_string(text: &str) -> String {
    let escaped = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => format!("\\x{:02x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// `(a, b)`, `(a,)`, `()`.
pub(in crate::export) fn tuple(items: &[String]) -> String {
    match items {
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
    }
}

/// `a, b`, `(a,)`: what is assigned to.
fn targets(items: &[String]) -> String {
    if items.len() == 1 { format!("({},)", items[0]) } else { items.join(", ") }
}

/// `a, b = from` at an indentation; one name a line where they are many.
pub(in crate::export) fn unpacked(indent: usize, items: &[String], from: &str) -> String {
    let flat = format!("{} = {from}", targets(items));
    if indent + flat.chars().count() <= WIDTH {
        return line(indent, &flat);
    }
    let pad = " ".repeat(indent);
    let names: Vec<String> = items.iter().map(|item| format!("{pad}    {item},\n")).collect();
    format!("{pad}(\n{}{pad}) = {from}\n", names.concat())
}

/// `a, b = x, y` at an indentation; one a line where they are many.
pub(in crate::export) fn assigned(indent: usize, to: &[String], from: &[String]) -> String {
    let flat = format!("{} = {}", to.join(", "), from.join(", "));
    if indent + flat.chars().count() <= WIDTH {
        return line(indent, &flat);
    }
    let from = tuple(from);
    let head = format!("{} = (", to.join(", "));
    if indent + head.chars().count() <= WIDTH {
        return line(indent, &format!("{} = {from}", to.join(", ")));
    }
    let pad = " ".repeat(indent);
    let names: Vec<String> = to.iter().map(|item| format!("{pad}    {item},\n")).collect();
    format!("{pad}(\n{}{}", names.concat(), line(indent, &format!(") = {from}")))
}
