//! The outline of a program: what it declares and defines, block in block, and what can be folded.

use shardwise_grammar::ast::{File, HardwareRef, Statement};
use shardwise_grammar::span::Spanned;
use shardwise_ir::Span;

use super::names::{Kind, Names};
use crate::source::place::quote;

/// An entry of the outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// The text that declares it, on one line.
    pub detail: String,
    /// The whole: of a block, from its first line to its last.
    pub span: Span,
    /// Its name.
    pub selection: Span,
    /// What a block declares and defines.
    pub children: Vec<Symbol>,
}

/// The outline of a program: each name where it is declared or defined.
pub(super) fn symbols(file: &File, names: &Names, source: &str) -> Vec<Symbol> {
    let mut levels: Vec<Vec<Symbol>> = vec![Vec::new()];
    for statement in &file.statements {
        match &statement.node {
            Statement::Close => close(&mut levels, statement.span.end),
            of if of.opens_block() => {
                let symbol = block(statement, source);
                levels.last_mut().into_iter().for_each(|level| level.push(symbol.clone()));
                levels.push(Vec::new());
            }
            _ => {
                let found = declared(statement, names, source);
                levels.last_mut().into_iter().for_each(|level| level.extend(found.clone()));
            }
        }
    }
    while levels.len() > 1 {
        close(&mut levels, source.len());
    }
    levels.pop().unwrap_or_default()
}

/// Ends the innermost block.
fn close(levels: &mut Vec<Vec<Symbol>>, end: usize) {
    if levels.len() < 2 {
        return;
    }
    let Some(children) = levels.pop() else { return };
    if let Some(block) = levels.last_mut().and_then(|level| level.last_mut()) {
        block.span.end = end;
        block.children = children;
    }
}

fn block(statement: &Spanned<Statement>, source: &str) -> Symbol {
    let detail = quote(source, statement.span);
    let name = detail.trim_end_matches('{').trim_end().to_owned();
    let (kind, span) = (Kind::Block, statement.span);
    Symbol { name, kind, detail: String::new(), span, selection: span, children: Vec::new() }
}

fn declared(statement: &Spanned<Statement>, names: &Names, source: &str) -> Vec<Symbol> {
    let span = statement.span;
    let entry = |name: &str, kind, selection| Symbol {
        name: name.to_owned(),
        kind,
        detail: quote(source, span),
        span,
        selection,
        children: Vec::new(),
    };
    if let Statement::Hardware(HardwareRef { name: Some(name), .. }) = &statement.node {
        return vec![entry(&name.node, Kind::Hardware, name.span)];
    }
    let inside = names.within(span).iter().filter(|name| name.is_definition);
    inside.map(|name| entry(&name.name, name.kind, name.span)).collect()
}

/// What can be folded: blocks, statements of several lines and comments of several lines.
pub(super) fn folds(file: &File, source: &str) -> Vec<Fold> {
    let mut folds = comments(source);
    let mut open = Vec::new();
    for statement in &file.statements {
        match &statement.node {
            of if of.opens_block() => open.push(statement.span.start),
            Statement::Close => folds.extend(open.pop().map(|start| Fold {
                span: Span::new(start, statement.span.end),
                is_comment: false,
            })),
            _ => folds.push(Fold { span: statement.span, is_comment: false }),
        }
    }
    let is_long = |fold: &Fold| source[fold.span.start..fold.span.end].contains('\n');
    folds.retain(is_long);
    folds.sort_by_key(|fold| fold.span);
    folds
}

/// A part of the text that can be folded to its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The part.
    pub span: Span,
    /// Whether it is a comment.
    pub is_comment: bool,
}

/// Lines that are comments, as far as they follow each other.
fn comments(source: &str) -> Vec<Fold> {
    let mut folds: Vec<Fold> = Vec::new();
    let (mut at, mut goes_on) = (0, false);
    for line in source.split_inclusive('\n') {
        let start = at + (line.len() - line.trim_start().len());
        let end = at + line.trim_end().len();
        at += line.len();
        let is_comment = line.trim_start().starts_with('#');
        match folds.last_mut() {
            Some(last) if is_comment && goes_on => last.span.end = end,
            _ if is_comment => folds.push(Fold { span: Span::new(start, end), is_comment }),
            _ => {}
        }
        goes_on = is_comment;
    }
    folds
}

#[cfg(test)]
mod tests {
    use super::super::Document;

    const LAYERS: &str = "\
# Two
# lines.
hardware h100
mesh X=4
dim B=8,
  D=4
input x[B_X, D]
repeat L=2 {
  carry x
  repeat M=3 {
    carry x
    y = gelu(x)
    x = x + y
  }
}
output x[B_X, D]
";

    #[test]
    fn blocks_hold_what_they_define() {
        let document = Document::new("a.shard", LAYERS);
        let symbols = document.symbols();
        let names = |symbols: &[super::Symbol]| -> Vec<String> {
            symbols.iter().map(|symbol| symbol.name.clone()).collect()
        };
        assert_eq!(names(&symbols), ["h100", "X", "B", "D", "x", "repeat L=2"]);
        let outer = &symbols[5];
        assert_eq!(names(&outer.children), ["repeat M=3"]);
        assert_eq!(names(&outer.children[0].children), ["y"]);
        let text = &LAYERS[outer.span.start..outer.span.end];
        assert!(text.starts_with("repeat L=2 {") && text.ends_with("}\n}"), "{text}");
    }

    #[test]
    fn blocks_lists_and_comments_fold() {
        let document = Document::new("a.shard", LAYERS);
        let folds = document.folds().into_iter();
        let lines: Vec<&str> = folds
            .map(|fold| &LAYERS[fold.span.start..fold.span.end])
            .map(|text| text.lines().next().unwrap_or_default())
            .collect();
        assert_eq!(lines, ["# Two", "dim B=8,", "repeat L=2 {", "repeat M=3 {"]);
    }

    #[test]
    fn a_block_that_is_not_closed_has_what_follows() {
        let document = Document::new("a.shard", "mesh X=4\nrepeat L=2 {\n  y = gelu(x)\n");
        let symbols = document.symbols();
        assert_eq!(symbols[1].children[0].name, "y");
    }
}
