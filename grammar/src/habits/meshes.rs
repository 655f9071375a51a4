//! Meshes that functions of other frameworks make: `mesh = jax.make_mesh((4, 2), ("X", "Y"))`.

use super::{Habit, arguments, call, is_word};

/// Functions and classes that make a mesh.
const MAKERS: [&str; 7] = [
    "make_mesh",
    "create_device_mesh",
    "create_hybrid_device_mesh",
    "init_device_mesh",
    "AbstractMesh",
    "DeviceMesh",
    "Mesh",
];

/// Names of axes where none are given.
const AXES: [&str; 4] = ["X", "Y", "Z", "W"];

/// Whether a statement makes a mesh as another framework does.
pub(crate) fn makes_mesh(text: &str) -> bool {
    made(text).is_some()
}

/// `mesh = jax.make_mesh((4, 2), ("X", "Y"))`, `Mesh(devices, ("X", "Y"))`.
pub(super) fn made_mesh(text: &str) -> Option<Habit> {
    let (maker, at, inside) = made(text)?;
    let help = match axes(inside) {
        Some(axes) => format!("write `mesh {axes}`"),
        None => "write the axes with their sizes: `mesh X=4, Y=2`".to_owned(),
    };
    let message = "a mesh is declared, and not made by a function";
    let at = (at, at + maker.len());
    Some(Habit { at, ..Habit::new(text, "", message, "makes a mesh", help) })
}

/// What makes the mesh, where it stands, and its arguments.
fn made(text: &str) -> Option<(&'static str, usize, &str)> {
    MAKERS.into_iter().find_map(|maker| {
        let (before, inside, _) = call(text, maker)?;
        Some((maker, before.len(), inside))
    })
}

/// The axes as a program declares them, `X=4, Y=2`; nothing where a size is no number.
fn axes(inside: &str) -> Option<String> {
    let groups: Vec<Vec<&str>> = innermost(inside).into_iter().map(arguments).collect();
    let list = |pairs: Vec<(&str, u64)>| {
        let axes = pairs.into_iter().map(|(name, size)| format!("{name}={size}"));
        axes.collect::<Vec<_>>().join(", ")
    };
    let pairs: Vec<(&str, u64)> = groups.iter().flat_map(|group| pairs(group)).collect();
    if !pairs.is_empty() {
        return Some(list(pairs));
    }
    let mut of_numbers = groups.iter().filter_map(|group| numbers(group));
    let (sizes, others) = (of_numbers.next()?, of_numbers.next());
    let is_fitting = |names: &Vec<&str>| names.len() == sizes.len();
    let written = groups.iter().filter_map(|group| names(group)).find(is_fitting);
    let names = written.unwrap_or_else(|| AXES.to_vec());
    let is_named = others.is_none() && sizes.len() <= names.len() && !sizes.contains(&0);
    is_named.then(|| list(names.into_iter().zip(sizes).collect()))
}

/// The texts between brackets that hold no other brackets.
fn innermost(text: &str) -> Vec<&str> {
    let (mut open, mut found) = (None, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => open = Some(at + 1),
            ')' | ']' | '}' => found.extend(open.take().map(|from| &text[from..at])),
            _ => {}
        }
    }
    found
}

/// `4, 2`: sizes, or the numbers of devices.
fn numbers(group: &[&str]) -> Option<Vec<u64>> {
    let numbers = group.iter().map(|part| part.parse().ok()).collect::<Option<Vec<_>>>()?;
    (!numbers.is_empty()).then_some(numbers)
}

/// `"X", "Y"`.
fn names<'t>(group: &[&'t str]) -> Option<Vec<&'t str>> {
    group.iter().map(|part| name(part)).collect()
}

/// `"X": 4, "Y": 2`, and `"X", 4` of a list of pairs.
fn pairs<'t>(group: &[&'t str]) -> Vec<(&'t str, u64)> {
    if let [first, second] = group
        && let Some(pair) = name(first).zip(size(second))
    {
        return vec![pair];
    }
    let pair = |part: &&'t str| {
        let (first, second) = part.split_once(':')?;
        name(first.trim()).zip(size(second))
    };
    group.iter().map(pair).collect::<Option<_>>().unwrap_or_default()
}

fn size(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&size| size > 0)
}

/// A name in quotes, as programs may have it.
fn name(text: &str) -> Option<&str> {
    let inside = text.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
    let is_name = inside.starts_with(char::is_alphabetic) && inside.chars().all(is_word);
    is_name.then_some(inside)
}
