//! What editors can ask, and the answers.

mod completion;
mod names;
mod plan;
mod tokens;

use gen_lsp_types::{
    CodeAction, CodeActionKind, CodeActionOptions, CodeActionParams, CodeActionRequest,
    CodeActionResponse, CodeLensOptions, CodeLensRequest, CompletionOptions, CompletionRequest,
    DefinitionRequest, DocumentFormattingParams, DocumentFormattingRequest,
    DocumentHighlightRequest, DocumentSymbol, DocumentSymbolParams, DocumentSymbolRequest,
    DocumentSymbolResponse, FoldingRange, FoldingRangeKind, FoldingRangeParams,
    FoldingRangeRequest, HoverRequest, InlayHintRequest, PositionEncodingKind,
    PrepareRenameRequest, ReferencesRequest, RenameOptions, RenameRequest, SemanticTokensOptions,
    SemanticTokensRequest, ServerCapabilities, SymbolKind, TextDocumentSyncKind,
    TextDocumentSyncOptions, TextEdit, Uri,
};
use shardwise::Span;
use shardwise::editor::{Kind, Symbol};
use shardwise::lint::{Edit, Finding, Safety, apply};

use super::convert;
use super::dispatch::Requested;
use super::documents::Open;
use super::server::Server;

/// What the server can do.
pub(super) fn capabilities() -> ServerCapabilities {
    ServerCapabilities {
        position_encoding: Some(PositionEncodingKind::UTF16),
        text_document_sync: Some(
            TextDocumentSyncOptions {
                open_close: Some(true),
                change: Some(TextDocumentSyncKind::Incremental),
                save: Some(true.into()),
                ..TextDocumentSyncOptions::default()
            }
            .into(),
        ),
        definition_provider: Some(true.into()),
        references_provider: Some(true.into()),
        document_highlight_provider: Some(true.into()),
        rename_provider: Some(
            RenameOptions { prepare_provider: Some(true), ..RenameOptions::default() }.into(),
        ),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(["_", "[", "{", "*", "=", "<", ":"].map(str::to_owned).into()),
            ..CompletionOptions::default()
        }),
        semantic_tokens_provider: Some(
            SemanticTokensOptions {
                legend: tokens::legend(),
                full: Some(true.into()),
                ..SemanticTokensOptions::default()
            }
            .into(),
        ),
        hover_provider: Some(true.into()),
        inlay_hint_provider: Some(true.into()),
        code_lens_provider: Some(CodeLensOptions::default()),
        document_formatting_provider: Some(true.into()),
        document_symbol_provider: Some(true.into()),
        folding_range_provider: Some(true.into()),
        code_action_provider: Some(
            CodeActionOptions {
                code_action_kinds: Some(vec![
                    CodeActionKind::QuickFix,
                    CodeActionKind::SourceFixAll,
                ]),
                ..CodeActionOptions::default()
            }
            .into(),
        ),
        ..ServerCapabilities::default()
    }
}

/// Answers a request with the function for its method.
pub(super) fn answer(requested: Requested<&Server>) -> Requested<&Server> {
    requested
        .on::<DocumentSymbolRequest>(symbols)
        .on::<FoldingRangeRequest>(folds)
        .on::<DocumentFormattingRequest>(formatting)
        .on::<CodeActionRequest>(actions)
        .on::<DefinitionRequest>(names::definition)
        .on::<ReferencesRequest>(names::references)
        .on::<DocumentHighlightRequest>(names::highlights)
        .try_on::<PrepareRenameRequest>(names::prepare_rename)
        .try_on::<RenameRequest>(names::rename)
        .on::<CompletionRequest>(completion::completion)
        .on::<SemanticTokensRequest>(tokens::tokens)
        .on::<HoverRequest>(plan::hover)
        .on::<InlayHintRequest>(plan::inlay_hints)
        .on::<CodeLensRequest>(plan::code_lenses)
}

fn symbols(server: &Server, params: DocumentSymbolParams) -> Option<DocumentSymbolResponse> {
    let open = server.open(&params.text_document.uri);
    let symbols = open.map(|open| {
        open.document.symbols().into_iter().map(|it| document_symbol(open, it)).collect::<Vec<_>>()
    });
    symbols.map(DocumentSymbolResponse::from)
}

fn document_symbol(open: &Open, symbol: Symbol) -> DocumentSymbol {
    let kind = match symbol.kind {
        Kind::Hardware => SymbolKind::Object,
        Kind::Axis => SymbolKind::EnumMember,
        Kind::Dim => SymbolKind::Constant,
        Kind::Block => SymbolKind::Namespace,
        Kind::Function | Kind::Collective => SymbolKind::Function,
        Kind::Value | Kind::Dtype | Kind::Code => SymbolKind::Variable,
    };
    let detail = Some(symbol.detail).filter(|detail| !detail.is_empty());
    let [range, selection] =
        [symbol.span, symbol.selection].map(|span| convert::range(&open.document, span));
    let children = symbol.children.into_iter().map(|child| document_symbol(open, child));
    let children = Some(children.collect());
    DocumentSymbol::new(symbol.name, detail, kind, None, None, range, selection, children)
}

fn folds(server: &Server, params: FoldingRangeParams) -> Option<Vec<FoldingRange>> {
    let open = server.open(&params.text_document.uri)?;
    let folds = open.document.folds().into_iter().map(|fold| {
        let range = convert::range(&open.document, fold.span);
        FoldingRange {
            start_line: range.start.line,
            end_line: range.end.line,
            kind: Some(if fold.is_comment {
                FoldingRangeKind::Comment
            } else {
                FoldingRangeKind::Region
            }),
            ..FoldingRange::default()
        }
    });
    Some(folds.collect())
}

fn formatting(server: &Server, params: DocumentFormattingParams) -> Option<Vec<TextEdit>> {
    let open = server.open(&params.text_document.uri)?;
    let edits = open.document.formatting().map(|(change, new_text)| TextEdit {
        range: convert::range(&open.document, change.old),
        new_text,
    });
    Some(edits.into_iter().collect())
}

/// The fixes of the findings in a range, and one that makes all safe ones.
fn actions(server: &Server, params: CodeActionParams) -> Option<Vec<CodeActionResponse>> {
    let uri = params.text_document.uri;
    let open = server.open(&uri)?;
    let wanted = convert::span(&open.document, params.range);
    let is_there = |span: Span| span.start <= wanted.end && wanted.start <= span.end;
    let here = open.findings().filter(|finding| is_there(finding.span()));
    let fixes = here.flat_map(|finding| {
        let fixes = open.document.fixes(finding).into_iter();
        fixes.map(|fix| convert::action(&uri, &open.document, finding, &fix)).collect::<Vec<_>>()
    });
    let mut actions: Vec<CodeAction> = fixes.chain(fix_all(&uri, open)).collect();
    if let Some(only) = &params.context.only {
        // `source` asks for `source.fixAll`, too.
        let is_asked = |kind: &CodeActionKind| {
            let kind = String::from(kind.clone());
            only.iter().any(|asked| {
                let asked = String::from(asked.clone());
                kind == asked || kind.starts_with(&format!("{asked}."))
            })
        };
        actions.retain(|action| action.kind.as_ref().is_some_and(is_asked));
    }
    Some(actions.into_iter().map(CodeActionResponse::from).collect())
}

/// All safe fixes that do not overlap, as one action.
fn fix_all(uri: &Uri, open: &Open) -> Option<CodeAction> {
    let is_safe =
        |finding: &&Finding| finding.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe);
    let fixes = open.findings().filter(is_safe).filter_map(|finding| finding.fix.as_ref());
    let text = &open.document.text;
    let (fixed, count) = apply(text, fixes);
    let change = shardwise::editor::Change::between(text, &fixed)?;
    let new_text = fixed[change.new.start..change.new.end].to_owned();
    let edit = Edit { span: change.old, text: new_text };
    let fixes = if count == 1 { "the safe fix".to_owned() } else { format!("{count} safe fixes") };
    Some(CodeAction {
        title: format!("make {fixes} of shardwise"),
        kind: Some(CodeActionKind::SourceFixAll),
        edit: Some(convert::workspace_edit(uri, &open.document, [&edit])),
        ..CodeAction::default()
    })
}
