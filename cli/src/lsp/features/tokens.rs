//! Parts of the text with what they are, as differences from the part before.

use gen_lsp_types::{SemanticToken, SemanticTokens, SemanticTokensLegend, SemanticTokensParams};
use shardwise::editor::{Kind, TokenKind};

use crate::lsp::convert;
use crate::lsp::server::Server;

/// The types of parts that the protocol knows; a part has the number of its type in this list.
const TYPES: [&str; 9] = [
    "keyword",
    "comment",
    "variable",
    "parameter",
    "enumMember",
    "namespace",
    "function",
    "type",
    "string",
];

/// The modifiers; a part has a bit for each.
const MODIFIERS: [&str; 1] = ["definition"];

pub(super) fn legend() -> SemanticTokensLegend {
    SemanticTokensLegend {
        token_types: TYPES.map(str::to_owned).into(),
        token_modifiers: MODIFIERS.map(str::to_owned).into(),
    }
}

fn type_name(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Keyword => "keyword",
        TokenKind::Comment => "comment",
        TokenKind::Name(Kind::Value) => "variable",
        TokenKind::Name(Kind::Dim) => "parameter",
        TokenKind::Name(Kind::Axis) => "enumMember",
        TokenKind::Name(Kind::Block) => "namespace",
        TokenKind::Name(Kind::Function | Kind::Collective) => "function",
        TokenKind::Name(Kind::Dtype) => "type",
        TokenKind::Name(Kind::Hardware | Kind::Code) => "string",
    }
}

pub(super) fn tokens(server: &Server, params: SemanticTokensParams) -> Option<SemanticTokens> {
    let document = &server.open(&params.text_document.uri)?.document;
    let (mut line, mut character) = (0, 0);
    let tokens = document.tokens().into_iter().map(|token| {
        let range = convert::range(document, token.span);
        let name = type_name(token.kind);
        let number = TYPES.iter().position(|it| *it == name).unwrap_or_default();
        if range.start.line != line {
            character = 0;
        }
        let data = SemanticToken {
            delta_line: range.start.line - line,
            delta_start: range.start.character - character,
            length: range.end.character.saturating_sub(range.start.character),
            token_type: number as u32,
            token_modifiers_bitset: u32::from(token.is_definition),
        };
        (line, character) = (range.start.line, range.start.character);
        data
    });
    Some(SemanticTokens { result_id: None, data: tokens.collect() })
}
