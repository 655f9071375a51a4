//! Writes `D_{X,Y}` as `D_XY`, and `{U_X,Y}` as `{U_XY}`, where the short form is unambiguous.
//!
//! That is the case if the file's own mesh declares every letter as an axis and no axis with the
//! joined name. A file without a mesh keeps its braces.

use crate::ast::{File, Layout, Statement, Subscript};
use crate::layouts;
use crate::span::Name;

/// Joins the subscripts of every layout in the file.
pub(super) fn join(file: &mut File) {
    let axes = axes_of(file);
    layouts::each(file, &mut |layout| join_layout(layout, &axes));
}

fn axes_of(file: &File) -> Vec<String> {
    let mut axes = Vec::new();
    for statement in &file.statements {
        if let Statement::Mesh(declared) = &statement.node {
            axes.extend(declared.iter().map(|axis| axis.name.node.clone()));
        }
    }
    axes
}

fn join_layout(layout: &mut Layout, axes: &[String]) {
    for dim in &mut layout.dims {
        if let Subscript::Axes(words) = &mut dim.subscript {
            join_words(words, axes);
        }
    }
    for unreduced in &mut layout.unreduced {
        join_words(&mut unreduced.axes, axes);
    }
}

fn join_words(words: &mut Vec<Name>, axes: &[String]) {
    let is_letter = |word: &Name| word.node.chars().count() == 1 && axes.contains(&word.node);
    let joined: String = words.iter().map(|word| word.node.as_str()).collect();
    if words.len() < 2 || !words.iter().all(is_letter) || axes.contains(&joined) {
        return;
    }
    words.truncate(1);
    words[0].node = joined;
}
