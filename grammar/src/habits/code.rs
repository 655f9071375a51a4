//! Statements, comments, blocks and calls of other languages.

use super::{Habit, Shapes, first_word, last_word};

/// Words for roles, and the keyword of the language.
const ROLES: [(&str, &str); 22] = [
    ("weight", "param"),
    ("weights", "param"),
    ("parameter", "param"),
    ("parameters", "param"),
    ("params", "param"),
    ("buffer", "state"),
    ("cache", "state"),
    ("inputs", "input"),
    ("in", "input"),
    ("tensor", "input"),
    ("array", "input"),
    ("placeholder", "input"),
    ("outputs", "output"),
    ("out", "output"),
    ("axis", "mesh"),
    ("axes", "mesh"),
    ("dims", "dim"),
    ("size", "dim"),
    ("sizes", "dim"),
    ("device", "hardware"),
    ("devices", "hardware"),
    ("chip", "hardware"),
];

/// First words of statements of programming languages, and what to write.
const STATEMENTS: [(&str, &str); 13] = [
    ("def", "there are no functions: write the statements one below the other"),
    ("fn", "there are no functions: write the statements one below the other"),
    ("class", "there are no classes: a program is a list of declarations and definitions"),
    ("for", "write `repeat L=12 {` and a `}` after the layer, with `carry x` as its first line"),
    ("while", "write `repeat L=12 {` and a `}` after the layer, with `carry x` as its first line"),
    ("if", "there are no branches: `select(mask, a, b)` chooses element by element"),
    ("return", "declare what leaves: `output Out[B, D]`"),
    ("import", "leave it out: every operation is known without an import"),
    ("from", "leave it out: every operation is known without an import"),
    ("let", "a definition has no keyword: `Out = In *D W`"),
    ("var", "a definition has no keyword: `Out = In *D W`"),
    ("const", "a definition has no keyword: `Out = In *D W`"),
    ("print", "declare what leaves: `output Out[B, D]`"),
];

/// The label of code in a programming language.
pub(crate) const FOREIGN: &str = "of another language";

/// The keyword that is meant by a word for a role.
pub(crate) fn role_meant(word: &str) -> Option<&'static str> {
    ROLES.iter().find(|(role, _)| *role == word).map(|(_, keyword)| *keyword)
}

/// `def`, `for`, `let`, `weight W[D, F]`.
pub(super) fn keyword(text: &str) -> Option<Habit> {
    let word = first_word(text);
    if let Some(habit) = keyword_as_name(text) {
        return Some(habit);
    }
    let rest = text[word.len()..].strip_prefix(' ')?.trim_start();
    if !rest.starts_with(char::is_alphanumeric) {
        return output_alone(text);
    }
    let message = format!("`{word}` is not a keyword");
    if let Some((_, help)) = STATEMENTS.iter().find(|(statement, _)| *statement == word) {
        let is_binding = matches!(word, "let" | "var" | "const");
        let help = if is_binding { format!("write `{rest}`") } else { (*help).to_owned() };
        return Some(Habit::new(text, word, message, FOREIGN, help));
    }
    let keyword = role_meant(word)?;
    let help = format!("write `{keyword} {rest}`");
    Some(Habit::new(text, word, message, "not understood", help))
}

/// `output = In *D W`.
fn output_alone(text: &str) -> Option<Habit> {
    let value = text.strip_prefix("output")?.trim_start().strip_prefix('=')?.trim();
    let message = "`output` is a keyword, and names no value";
    let help = format!("give the value a name: `output Out[B, D] = {value}`");
    Some(Habit::new(text, "output", message, "needs a name", help))
}

/// Keywords that name no value, with what each begins.
const NO_NAMES: [(&str, &str); 5] = [
    ("plan", "begins the text of a plan"),
    ("hardware", "names the chip"),
    ("mesh", "declares the mesh"),
    ("dim", "declares dimensions"),
    ("assert", "begins a limit"),
];

/// `plan = In *D W`, `plan[B, D] = In *D W`, `mesh = gelu(x)`; `mesh = X` may mean an axis.
fn keyword_as_name(text: &str) -> Option<Habit> {
    let (keyword, label) =
        NO_NAMES.into_iter().find(|(keyword, _)| *keyword == first_word(text))?;
    let rest = &text[keyword.len()..];
    if !rest.trim_start().starts_with(['=', '[']) {
        return None;
    }
    let value = rest.split_once('=').map_or("", |(_, value)| value.trim_start());
    let is_computed = value.contains(['*', '+']) || value.find('(').is_some_and(|at| at > 0);
    if keyword != "plan" && !is_computed {
        return None;
    }
    let message = format!("`{keyword}` is a keyword, and names no value");
    let name: String = keyword[..1].to_uppercase() + &keyword[1..];
    let help = format!("give the value another name: `{name}{rest}`");
    Some(Habit::new(text, keyword, message, label, help))
}

/// `// text`, `/* text */`.
pub(super) fn comment(text: &str) -> Option<Habit> {
    let sign = ["//", "/*"].into_iter().find(|sign| text.contains(sign))?;
    if sign == "//" && first_word(text) == "dim" {
        let help = format!("write `{}`: a quotient must come out whole", text.replace("//", "/"));
        return Some(Habit::new(text, sign, "`//` is no operator", "a division", help));
    }
    let (before, words) = text.split_once(sign)?;
    let words = words.trim_end().trim_end_matches("*/").trim();
    let line = format!("{} # {words}", before.trim_end());
    let help = format!("write `{}`", line.trim_start());
    Some(Habit::new(text, sign, "comments begin with `#`", "a comment", help))
}

/// `Out := …`, `Out <- …`, `Out += …`.
pub(super) fn assignment(text: &str) -> Option<Habit> {
    for sign in [":=", "<-"] {
        if let Some((target, value)) = text.split_once(sign) {
            let message = format!("`{sign}` is no operator: a definition is written with `=`");
            let help = format!("write `{} = {}`", target.trim(), value.trim());
            return Some(Habit::new(text, sign, message, "defines", help));
        }
    }
    for (sign, operator) in [("+=", '+'), ("-=", '-'), ("*=", '*'), ("/=", '/')] {
        if let Some((before, value)) = text.split_once(sign) {
            let target = last_word(before);
            let message = format!("`{sign}` would define `{target}` again: values do not change");
            let help = format!(
                "give the result a name: `{target}2 = {target} {operator} {}`",
                value.trim()
            );
            return Some(Habit::new(text, sign, message, "changes a value", help));
        }
    }
    None
}

/// `attention(q, k, v, causal=True)`.
pub(super) fn truth(text: &str) -> Option<Habit> {
    let (at, value) = ["True", "true", "False", "false"]
        .into_iter()
        .find_map(|value| Some((text.find(&format!("={value}"))?, value)))?;
    let option = last_word(&text[..at]);
    let is_whole_word =
        !text[at + 1 + value.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if !is_whole_word || !text[..at].contains('(') {
        return None;
    }
    let help = if value.eq_ignore_ascii_case("true") {
        format!("write `{}`", option.strip_prefix("is_").unwrap_or(option))
    } else {
        "leave it out".to_owned()
    };
    let message = format!("`{option}` has no value: it is written, or not");
    Some(Habit::new(text, &text[at - option.len()..=at + value.len()], message, "an option", help))
}

/// `attention(q, k, v, scale=1/128)`, `attention(q, k, v, mask=causal)`.
pub(super) fn number(text: &str) -> Option<Habit> {
    let (at, option) = ["scale=", "softcap=", "window=", "mask="]
        .into_iter()
        .find_map(|option| Some((text.find(option)?, option.trim_end_matches('='))))?;
    let rest = &text[at + option.len() + 1..];
    let end = end_of_argument(rest);
    let (given, found) = (rest[..end].trim(), &text[at..at + option.len() + 1 + end]);
    if option == "mask" {
        let help = format!("write `{given}` alone");
        return Some(Habit::new(text, found, "`mask` is no option", "an option", help));
    }
    if given.is_empty() || given.parse::<f64>().is_ok() {
        return None;
    }
    let value = quotient(given).map_or("0.088".to_owned(), |value| format!("{value:.6}"));
    let message = format!("`{option}` is a number, and not an expression");
    let help = format!("write its value: `{option}={}`", value.trim_end_matches('0'));
    Some(Habit::new(text, found, message, "an expression", help))
}

/// Where an argument ends: before a comma or a parenthesis that it does not open.
fn end_of_argument(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ',' | ')' if depth == 0 => return at,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// `1/128`, `0.5*2`: the value of two numbers.
fn quotient(text: &str) -> Option<f64> {
    let (sign, at) = ['/', '*'].into_iter().find_map(|sign| Some((sign, text.find(sign)?)))?;
    let (left, right) = (text[..at].trim(), text[at + 1..].trim());
    let (left, right): (f64, f64) = (left.parse().ok()?, right.parse().ok()?);
    Some(if sign == '/' { left / right } else { left * right }).filter(|value| value.is_finite())
}

/// `x > 0 and x < 1`, `(a > b) | (c > d)`.
pub(super) fn logic(text: &str) -> Option<Habit> {
    const BOTH: &str = "write the product of both masks: `(x > 0.0) * (y > 0.0)`";
    const EITHER: &str = "write the larger of both masks: `maximum(x > 0.0, y > 0.0)`";
    let signs = [
        (" and ", BOTH),
        (" && ", BOTH),
        (" & ", BOTH),
        (" or ", EITHER),
        (" || ", EITHER),
        (" | ", EITHER),
    ];
    let (at, sign, help) = signs
        .into_iter()
        .find_map(|(sign, help)| Some((text.find(sign)? + 1, sign.trim(), help)))?;
    let is_of_masks = ["<", ">", "==", "!="].iter().any(|of| text[..at].contains(of));
    is_of_masks.then(|| Habit {
        at: (at, at + sign.len()),
        message: format!("`{sign}` is no operator"),
        label: "joins masks",
        help: help.to_owned(),
    })
}

/// `assert memory <= 90%`, `assert MFU >= 0.5`, `assert comm == 0`.
fn limit(text: &str, rest: &str) -> Option<Habit> {
    let of_time = "write the time of a step: `assert scheduled <= 20ms`";
    if rest.ends_with('%') {
        let is_memory = first_word(rest).eq_ignore_ascii_case("memory");
        let help = if is_memory { "write bytes: `assert memory <= 76GB`" } else { of_time };
        return Some(Habit::new(text, rest, "a limit is no percentage", "this limit", help));
    }
    let at = rest.find(['<', '>', '='])?;
    let after = rest[at..].trim_start_matches(['<', '>', '=']);
    let operator = &rest[at..rest.len() - after.len()];
    if matches!(operator, "<" | "<=") {
        return None;
    }
    let quantity = rest[..at].trim();
    let help = match quantity {
        "memory" => "write `assert memory <= 76GB`".to_owned(),
        "comm" | "compute" | "serial" | "overlap" | "scheduled" => {
            format!("write `assert {quantity} <= 2ms`, or `assert no AllGather over X`")
        }
        _ => of_time.to_owned(),
    };
    let message = "a limit is the most that a quantity may be, `<=`";
    Some(Habit::new(text, operator, message, "not a limit", help))
}

/// `repeat 40 {`, `repeat L=40:`.
pub(super) fn block(text: &str, shapes: &Shapes) -> Option<Habit> {
    let word = first_word(text);
    let rest = text[word.len()..].trim();
    match word {
        "repeat" if rest.ends_with(':') => {
            let head = rest.trim_end_matches(':');
            let help = format!("write `repeat {head} {{`, and `}}` after the last line of it");
            Some(Habit::new(text, rest, "a block stands in braces", "opens a block", help))
        }
        "repeat" if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            let help = format!("write `repeat L={rest}`");
            Some(Habit::new(text, rest, "the layers of a block have a name", "only a number", help))
        }
        "repeat" if !rest.contains('=') && rest.ends_with('{') => {
            let name = rest.trim_end_matches(['{', ' ']);
            let count = if shapes.is_dim(name) { name } else { "40" };
            let help = format!("write `repeat {name}={count} {{`");
            Some(Habit::new(text, rest, "the number of layers is missing", "how many?", help))
        }
        "assert" => limit(text, rest),
        _ => None,
    }
}

/// The dtype in `.to(torch.bfloat16)`, as its author writes it.
fn dtype_meant(call: &str) -> &str {
    let argument = call.split(['(', ')']).nth(1).unwrap_or_default();
    match last_word(argument) {
        "" => "bf16",
        dtype => dtype,
    }
}

/// `(x).astype(f32)`, `Loss.backward()`.
pub(super) fn method(text: &str) -> Option<Habit> {
    if let Some(loss) = text.strip_suffix(".backward()") {
        let message = "gradients are asked for by a statement";
        let help = format!("write `backward from {loss}`");
        return Some(Habit::new(text, ".backward()", message, "a method", help));
    }
    if let Some(at) = [", '", "('", ", \"", "(\""].iter().find_map(|quote| text.find(quote)) {
        let message = "names stand without quotes";
        let help = "axes and dimensions follow a `_`: `AllReduce_X(x)`, `sum_D(x)`";
        let found = &text[at + 1..].trim_start()[..1];
        return Some(Habit::new(text, found, message, "a quote", help));
    }
    let at = text.find(").")? + 1;
    let method = first_word(&text[at + 1..]);
    let message = format!("`.{method}` is no part of a value: there are no methods");
    let help = match method {
        "astype" | "to" => format!("write `cast<{}>(x)`", dtype_meant(&text[at..])),
        "view" | "reshape" | "flatten" => {
            "write `Out[B, N, H] = reshape(x)`: the left side names the dimensions".to_owned()
        }
        "T" | "transpose" | "permute" => {
            "leave it out: dimensions go by name, not by place".to_owned()
        }
        _ => "write it as a function of the value: `sum_D(x)`".to_owned(),
    };
    Some(Habit {
        at: (at, at + 1 + method.len()),
        ..Habit::new(text, "", message, "a method", help)
    })
}
