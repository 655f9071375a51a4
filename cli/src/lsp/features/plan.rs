//! What a plan says, beside the text and at the pointer.

use gen_lsp_types::{
    CodeLens, CodeLensParams, Command, Hover, HoverParams, InlayHint, InlayHintParams,
    MarkupContent, MarkupKind, Range,
};
use shardwise::editor::Known;

use crate::lsp::convert;
use crate::lsp::server::Server;

fn markdown(value: String) -> MarkupContent {
    MarkupContent { kind: MarkupKind::Markdown, value }
}

pub(super) fn hover(server: &Server, params: HoverParams) -> Option<Hover> {
    let place = params.text_document_position_params;
    let open = server.open(&place.text_document.uri)?;
    let offset = convert::offset(&open.document, place.position);
    let known = Known { program: open.program(), insight: open.insight() };
    let (span, text) = open.document.hover(offset, known)?;
    Some(Hover {
        contents: markdown(text).into(),
        range: Some(convert::range(&open.document, span)),
    })
}

pub(super) fn inlay_hints(server: &Server, params: InlayHintParams) -> Option<Vec<InlayHint>> {
    let open = server.open(&params.text_document.uri)?;
    let wanted = convert::span(&open.document, params.range);
    let hints = open.insight().into_iter().flat_map(|insight| &insight.hints);
    let hints = hints.filter(|hint| wanted.start <= hint.offset && hint.offset <= wanted.end);
    let hints = hints.map(|hint| {
        let details = (!hint.details.is_empty()).then(|| hint.details.join("\n\n"));
        InlayHint {
            position: convert::position(open.document.position(hint.offset)),
            label: hint.label.clone().into(),
            kind: None,
            text_edits: None,
            tooltip: details.map(|text| markdown(text).into()),
            padding_left: Some(hint.is_collective),
            padding_right: None,
            data: None,
        }
    });
    Some(hints.collect())
}

/// The figures of a step above the first line: a code lens, which editors show without code of
/// their own; a notification of our own would need a part in every editor that knows it.
pub(super) fn code_lenses(server: &Server, params: CodeLensParams) -> Option<Vec<CodeLens>> {
    let open = server.open(&params.text_document.uri)?;
    let lens = open.insight().map(|insight| CodeLens {
        range: Range::default(),
        // Without a command it is text to read.
        command: Some(Command { title: insight.summary.clone(), ..Command::default() }),
        data: None,
    });
    Some(lens.into_iter().collect())
}
