//! Parts of the text with what they are, to be colored: names by what they name, keywords,
//! comments. Numbers and operators are left to the grammar of the editor.

use shardwise_grammar::ast::{File, Statement};
use shardwise_grammar::keywords::KEYWORDS;
use shardwise_ir::Span;

use super::names::{Kind, Names};

/// What a part of the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword that begins a statement.
    Keyword,
    /// A comment.
    Comment,
    /// A name.
    Name(Kind),
}

/// A part of the text, on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The part.
    pub span: Span,
    /// What it is.
    pub kind: TokenKind,
    /// Whether a name is declared or defined here.
    pub is_definition: bool,
}

/// The parts of a text, in its order, none in another.
pub(super) fn tokens(file: &File, names: &Names, source: &str) -> Vec<Token> {
    let plain = |kind| move |span| Token { span, kind, is_definition: false };
    let mut tokens: Vec<Token> = keywords(file, source).map(plain(TokenKind::Keyword)).collect();
    tokens.extend(comments(source).map(plain(TokenKind::Comment)));
    tokens.extend(names.all().iter().map(|name| {
        // Of a word of several axes, each is a part of its own.
        let span = if name.kind == Kind::Axis { name.span } else { name.word };
        Token { span, kind: TokenKind::Name(name.kind), is_definition: name.is_definition }
    }));
    tokens.sort_by_key(|token| token.span);
    let mut end = 0;
    tokens.retain(|token| {
        let is_apart = end <= token.span.start && token.span.start < token.span.end;
        end = if is_apart { token.span.end } else { end };
        is_apart
    });
    tokens
}

/// The keywords at the beginnings of statements.
fn keywords(file: &File, source: &str) -> impl Iterator<Item = Span> {
    file.statements.iter().filter_map(|statement| {
        let Span { start, end } = statement.span;
        let text = source.get(start..end)?;
        let length = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
        let is_name = matches!(&statement.node, Statement::Define(of) if !of.output);
        (!is_name && KEYWORDS.contains(&&text[..length])).then(|| Span::new(start, start + length))
    })
}

fn comments(source: &str) -> impl Iterator<Item = Span> {
    let starts = std::iter::once(0).chain(source.match_indices(['\n', '\r']).map(|(at, _)| at + 1));
    starts.filter_map(|start| {
        let line = source[start..].split(['\n', '\r']).next().unwrap_or_default();
        line.find('#').map(|at| Span::new(start + at, start + line.trim_end().len()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Document, Kind};
    use super::TokenKind;

    #[test]
    fn words_are_what_they_name() {
        let text = "mesh X=4, Y=2 # a mesh\ndim B=8, F=4\ninput In[B_XY, F]\nstate = gelu(In)\n\
            output state[B_XY, F]\n";
        let document = Document::new("a.shard", text);
        let tokens = document.tokens();
        let shown: Vec<(&str, TokenKind)> =
            tokens.iter().map(|it| (&text[it.span.start..it.span.end], it.kind)).collect();
        let [axis, dim, value] = [Kind::Axis, Kind::Dim, Kind::Value].map(TokenKind::Name);
        let keyword = TokenKind::Keyword;
        let expected = [
            ("mesh", keyword),
            ("X", axis),
            ("Y", axis),
            ("# a mesh", TokenKind::Comment),
            ("dim", keyword),
            ("B", dim),
            ("F", dim),
            ("input", keyword),
            ("In", value),
            ("B", dim),
            ("X", axis),
            ("Y", axis),
            ("F", dim),
            ("state", value),
            ("gelu", TokenKind::Name(Kind::Function)),
            ("In", value),
            ("output", keyword),
            ("state", value),
            ("B", dim),
            ("X", axis),
            ("Y", axis),
            ("F", dim),
        ];
        assert_eq!(shown, expected);
    }
}
