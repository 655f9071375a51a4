//! Loops as `lax.scan`: a function of one iteration, and the call.

use super::super::python::body::Writer;
use super::super::python::layout::{self, tuple};
use super::super::python::loops::Iterated;

/// Writes a loop.
pub(super) fn scan(writer: &mut Writer<'_>, of: &Iterated<'_>) {
    let (frame, indent, function) = (of.frame, of.indent, of.name);
    let column = |n: usize| frame.carried.iter().map(|it| it[n].clone()).collect::<Vec<_>>();
    let (first, inside, passed, after) = (column(0), column(1), column(2), column(3));
    let pair =
        |rows: &[[String; 2]], n: usize| rows.iter().map(|it| it[n].clone()).collect::<Vec<_>>();
    let or_none =
        |items: &[String]| if items.is_empty() { "None".to_owned() } else { tuple(items) };
    writer.text += "\n";
    writer.line(indent, &format!("def {function}(carried, given_part):"));
    if !inside.is_empty() {
        writer.text += &layout::unpacked(indent + 4, &inside, "carried");
    }
    let parts = pair(&frame.read, 1);
    if !parts.is_empty() {
        writer.text += &layout::unpacked(indent + 4, &parts, "given_part");
    }
    writer.text += of.body;
    let kept = pair(&frame.kept, 0);
    let value = |items: &[String]| if items.is_empty() { "()".to_owned() } else { tuple(items) };
    writer.line(indent + 4, &format!("return {}, {}", value(&passed), value(&kept)));
    writer.text += "\n";
    let arrays = or_none(&pair(&frame.read, 0));
    let reverse = if of.reverse { ", reverse=True" } else { "" };
    let call =
        format!("lax.scan({function}, {}, {arrays}, length={}{reverse})", value(&first), of.count);
    let kept = pair(&frame.kept, 1);
    let last = if after.iter().all(|name| name == "_") { "_" } else { "last" };
    let all = if kept.is_empty() { "_" } else { "kept" };
    writer.line(indent, &format!("{last}, {all} = {call}"));
    if last != "_" {
        writer.text += &layout::unpacked(indent, &after, last);
    }
    if !kept.is_empty() {
        writer.text += &layout::unpacked(indent, &kept, all);
    }
}
