//! Loops of Python: what is passed on is assigned at the end of an iteration, what is kept of each
//! is stacked after the last.

use super::super::python::body::Writer;
use super::super::python::layout;
use super::super::python::loops::Iterated;

/// Writes a loop.
pub(super) fn iterated(writer: &mut Writer<'_>, of: &Iterated<'_>) {
    let (frame, indent, index) = (of.frame, of.indent, of.name);
    let read: Vec<[String; 2]> = frame
        .read
        .iter()
        .map(|(all, name)| [parts(writer, all, name, indent), name.clone()])
        .collect();
    assign(writer, indent, frame.carried.iter().map(|it| [it.inside.clone(), it.first.clone()]));
    for (_, all) in &frame.kept {
        writer.line(indent, &format!("{all} = [None] * {}", of.count));
    }
    let range = format!("range({})", of.count);
    let range = if of.reverse { format!("reversed({range})") } else { range };
    writer.line(indent, &format!("for {index} in {range}:"));
    let before = writer.text.len();
    for [all, name] in read {
        writer.line(indent + 4, &format!("{name} = {all}[{index}]"));
    }
    writer.text += of.body;
    for (own, all) in &frame.kept {
        writer.line(indent + 4, &format!("{all}[{index}] = {own}"));
    }
    assign(
        writer,
        indent + 4,
        frame.carried.iter().map(|it| [it.inside.clone(), it.passed.clone()]),
    );
    if writer.text.len() == before {
        writer.line(indent + 4, "pass");
    }
    for (_, all) in &frame.kept {
        writer.line(indent, &format!("{all} = torch.stack({all})"));
    }
    let after = frame.carried.iter().filter_map(|it| Some([it.after.clone()?, it.inside.clone()]));
    assign(writer, indent, after);
}

/// What each iteration reads a part of, as a variable: computed once, before the loop.
fn parts(writer: &mut Writer<'_>, all: &str, name: &str, indent: usize) -> String {
    if !all.contains('(') {
        return all.to_owned();
    }
    let parts = writer.names.fresh_through_loops(&format!("{name}_parts"));
    writer.line(indent, &format!("{parts} = {all}"));
    parts
}

/// `a, b = x, y`: all at once, without what stays as it is.
fn assign(writer: &mut Writer<'_>, indent: usize, pairs: impl Iterator<Item = [String; 2]>) {
    let pairs: Vec<[String; 2]> = pairs.filter(|[to, from]| to != from).collect();
    let column = |n: usize| pairs.iter().map(|pair| pair[n].clone()).collect::<Vec<_>>();
    match pairs.as_slice() {
        [] => {}
        [[to, from]] => writer.line(indent, &format!("{to} = {from}")),
        _ => writer.text += &layout::assigned(indent, &column(0), &column(1)),
    }
}
