//! What can be typed at a place.

use gen_lsp_types::{
    CompletionItem, CompletionItemKind, CompletionParams, CompletionResponse, MarkupContent,
    MarkupKind, TextEdit,
};
use shardwise::editor::{Item, ItemKind, Kind};

use crate::lsp::convert;
use crate::lsp::server::Server;

pub(super) fn completion(server: &Server, params: CompletionParams) -> Option<CompletionResponse> {
    let place = params.text_document_position_params;
    let document = &server.open(&place.text_document.uri)?.document;
    let offset = convert::offset(document, place.position);
    let completions = document.completions(offset, &server.options().known);
    let range = convert::range(document, completions.replaced);
    let items = completions.items.into_iter().enumerate().map(|(number, item)| {
        let Item { label, kind, detail, meaning } = item;
        CompletionItem {
            kind: Some(item_kind(kind)),
            detail: Some(detail).filter(|detail| !detail.is_empty()),
            documentation: (!meaning.is_empty())
                .then(|| MarkupContent { kind: MarkupKind::Markdown, value: meaning }.into()),
            // In the order of the library: names of the program first.
            sort_text: Some(format!("{number:04}")),
            text_edit: Some(TextEdit { range, new_text: label.clone() }.into()),
            label,
            ..CompletionItem::default()
        }
    });
    Some(items.collect::<Vec<_>>().into())
}

fn item_kind(kind: ItemKind) -> CompletionItemKind {
    match kind {
        ItemKind::Word => CompletionItemKind::Keyword,
        ItemKind::Name(Kind::Hardware) => CompletionItemKind::Module,
        ItemKind::Name(Kind::Axis) => CompletionItemKind::EnumMember,
        ItemKind::Name(Kind::Dim | Kind::Block) => CompletionItemKind::Constant,
        ItemKind::Name(Kind::Value) => CompletionItemKind::Variable,
        ItemKind::Name(Kind::Function | Kind::Collective) => CompletionItemKind::Function,
        ItemKind::Name(Kind::Dtype) => CompletionItemKind::TypeParameter,
        ItemKind::Name(Kind::Code) => CompletionItemKind::Reference,
    }
}
