//! Loops as `lax.scan`: a function of one iteration, and the call.

use super::super::python::body::Writer;
use super::super::python::layout::{self, tuple};
use super::super::python::loops::{Iterated, after};

/// Writes a loop.
pub(super) fn scan(writer: &mut Writer<'_>, of: &Iterated<'_>) {
    let (frame, indent, function) = (of.frame, of.indent, of.name);
    let first: Vec<String> = frame.carried.iter().map(|it| it.first.clone()).collect();
    let inside: Vec<String> = frame.carried.iter().map(|it| it.inside.clone()).collect();
    let passed: Vec<String> = frame.carried.iter().map(|it| it.passed.clone()).collect();
    let after = after(frame);
    let (arrays, parts): (Vec<String>, Vec<String>) = frame.read.iter().cloned().unzip();
    let (kept, all_kept): (Vec<String>, Vec<String>) = frame.kept.iter().cloned().unzip();
    let or_none =
        |items: &[String]| if items.is_empty() { "None".to_owned() } else { tuple(items) };
    writer.text += "\n";
    writer.line(indent, &format!("def {function}(carried, given_part):"));
    if !inside.is_empty() {
        writer.text += &layout::unpacked(indent + 4, &inside, "carried");
    }
    if !parts.is_empty() {
        writer.text += &layout::unpacked(indent + 4, &parts, "given_part");
    }
    writer.text += of.body;
    let value = |items: &[String]| if items.is_empty() { "()".to_owned() } else { tuple(items) };
    writer.line(indent + 4, &format!("return {}, {}", value(&passed), value(&kept)));
    writer.text += "\n";
    let arrays = or_none(&arrays);
    let reverse = if of.reverse { ", reverse=True" } else { "" };
    let call =
        format!("lax.scan({function}, {}, {arrays}, length={}{reverse})", value(&first), of.count);
    let last = if after.iter().all(|name| name == "_") { "_" } else { "last" };
    let all = if kept.is_empty() { "_" } else { "kept" };
    writer.line(indent, &format!("{last}, {all} = {call}"));
    if last != "_" {
        writer.text += &layout::unpacked(indent, &after, last);
    }
    if !kept.is_empty() {
        writer.text += &layout::unpacked(indent, &all_kept, all);
    }
}
