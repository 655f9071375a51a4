//! Where a name is declared and used, and other names for it.

use gen_lsp_types::{
    Definition, DefinitionParams, DefinitionResponse, DocumentHighlight, DocumentHighlightKind,
    DocumentHighlightParams, Location, PrepareRenameParams, PrepareRenamePlaceholder,
    PrepareRenameResult, ReferenceParams, RenameParams, TextDocumentPositionParams, WorkspaceEdit,
};
use shardwise::editor::Occurrence;

use crate::lsp::convert;
use crate::lsp::documents::Open;
use crate::lsp::server::Server;

/// The program and the name at a place.
fn at<'s>(
    server: &'s Server,
    params: &TextDocumentPositionParams,
) -> Option<(&'s Open, &'s Occurrence)> {
    let open = server.open(&params.text_document.uri)?;
    let offset = convert::offset(&open.document, params.position);
    Some((open, open.document.names().at(offset)?))
}

pub(super) fn definition(server: &Server, params: DefinitionParams) -> Option<DefinitionResponse> {
    let place = params.text_document_position_params;
    let (open, name) = at(server, &place)?;
    let definition = open.document.names().definition(name)?;
    let range = convert::range(&open.document, definition.span);
    let location = Location { uri: place.text_document.uri, range };
    Some(Definition::from(location).into())
}

pub(super) fn references(server: &Server, params: ReferenceParams) -> Option<Vec<Location>> {
    let place = params.text_document_position_params;
    let (open, name) = at(server, &place)?;
    let with_definition = params.context.include_declaration;
    let places = open.document.names().same(name);
    let places = places.filter(|it| with_definition || !it.is_definition);
    let location = |it: &Occurrence| Location {
        uri: place.text_document.uri.clone(),
        range: convert::range(&open.document, it.span),
    };
    Some(places.map(location).collect())
}

pub(super) fn highlights(
    server: &Server,
    params: DocumentHighlightParams,
) -> Option<Vec<DocumentHighlight>> {
    let (open, name) = at(server, &params.text_document_position_params)?;
    let highlight = |it: &Occurrence| DocumentHighlight {
        range: convert::range(&open.document, it.span),
        kind: Some(if it.is_definition {
            DocumentHighlightKind::Write
        } else {
            DocumentHighlightKind::Read
        }),
    };
    Some(open.document.names().same(name).map(highlight).collect())
}

pub(super) fn prepare_rename(
    server: &Server,
    params: PrepareRenameParams,
) -> Result<Option<PrepareRenameResult>, String> {
    let Some((open, name)) = at(server, &params.text_document_position_params) else {
        return Ok(None);
    };
    open.document.can_be_renamed(name)?;
    let range = convert::range(&open.document, name.span);
    Ok(Some(PrepareRenamePlaceholder { range, placeholder: name.name.clone() }.into()))
}

pub(super) fn rename(
    server: &Server,
    params: RenameParams,
) -> Result<Option<WorkspaceEdit>, String> {
    let place = params.text_document_position_params;
    let Some((open, name)) = at(server, &place) else { return Ok(None) };
    let edits = open.document.rename(name, params.new_name.trim(), server.options())?;
    Ok(Some(convert::workspace_edit(&place.text_document.uri, &open.document, &edits)))
}
