"""The server as the client pytest-lsp sees it: each answer that compiler/docs/editors.md lists.

Run by cli/tests/tools/editors.rs; `SHARDWISE` is the command.
"""

import asyncio
import json
import os
import re
import subprocess
import textwrap

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

SHARDWISE = os.environ["SHARDWISE"]
PROGRAM = """\
hardware tpu-v5p
mesh X=4, Y=2
dim B=65536, D=4096, F=4*D

# One layer.
input x[B_X, D]
param Win[D, F_Y], Wout[F_Y, D]
repeat L=2 {
  carry x
  H = gelu(x *D Win)
  x = H *F Wout
}
output x[B_X, D]
"""
EVERYWHERE = types.Range(types.Position(0, 0), types.Position(999, 0))


@pytest_lsp.fixture(config=ClientServerConfig(server_command=[SHARDWISE, "lsp"]))
async def client(lsp_client: LanguageClient):
    lsp_client.planned = asyncio.Event()

    @lsp_client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    def _(_params):
        lsp_client.planned.set()

    parameters = types.InitializeParams(client_capabilities("visual-studio-code"))
    await lsp_client.initialize_session(parameters)
    yield
    await lsp_client.shutdown_session()


def opened(client, text=PROGRAM, name="model"):
    """Opens a program."""
    document = types.TextDocumentItem(f"file:///{name}.shard", "shardwise", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    return types.TextDocumentIdentifier(document.uri)


def place(text, words, within=0):
    """The place of the first occurrence of some words."""
    before = text[: text.index(words) + within]
    return types.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)


def edited(text, edits):
    """A text after edits, which do not overlap."""
    lines = text.splitlines(keepends=True)

    def offset(position):
        return sum(map(len, lines[: position.line])) + position.character

    for edit in sorted(edits, key=lambda edit: offset(edit.range.start), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


async def found(client, document, is_wanted):
    """The diagnostics of a program, once they are as wanted."""
    for _ in range(600):
        diagnostics = client.diagnostics.get(document.uri, [])
        if is_wanted(diagnostics):
            return diagnostics
        await asyncio.sleep(0.05)
    raise AssertionError(diagnostics)


async def planned(client):
    await asyncio.wait_for(client.planned.wait(), 60)


async def test_errors_come_with_each_edit(client):
    document = opened(client)
    await found(client, document, lambda all: document.uri in client.diagnostics)
    at = place(PROGRAM, "Wout\n")
    change = types.TextDocumentContentChangePartial(types.Range(at, at), "No")
    versioned = types.VersionedTextDocumentIdentifier(2, document.uri)
    client.text_document_did_change(types.DidChangeTextDocumentParams(versioned, [change]))
    await found(client, document, lambda all: at in [found.range.start for found in all])


def lints():
    """Each lint, and the program of its page that has the fault."""
    page = subprocess.run([SHARDWISE, "docs", "codes"], capture_output=True, text=True, check=True)
    for code in sorted(set(re.findall(r"^#+ .*(SW3\d\d)", page.stdout, re.MULTILINE))):
        page = subprocess.run([SHARDWISE, "docs", code], capture_output=True, text=True, check=True)
        if example := re.search(r"\nTriggered by:\n\n((?:    .*\n|\n)+)", page.stdout):
            yield code, textwrap.dedent(example[1])


def fixes(text, code):
    """The fixes of `check` for the findings of a lint, as texts."""
    command = [SHARDWISE, "check", "-", "--isolated", "--format", "json", "--select", code]
    check = subprocess.run(command, input=text.encode(), capture_output=True)
    encoded = text.encode()
    for finding in json.loads(check.stdout)["findings"]:
        if finding["code"] == code and finding["fix"]:
            fixed = encoded
            for edit in sorted(finding["fix"]["edits"], key=lambda edit: -edit["start"]):
                fixed = fixed[: edit["start"]] + edit["text"].encode() + fixed[edit["end"] :]
            yield fixed.decode()


async def test_every_fix_of_check_is_a_code_action(client):
    fixed = 0
    for code, text in lints():
        wanted = set(fixes(text, code))
        if not wanted:
            continue
        document = opened(client, text, code)
        is_there = lambda all: any(each.code == code for each in all)
        diagnostics = await found(client, document, is_there)
        context = types.CodeActionContext([each for each in diagnostics if each.code == code])
        parameters = types.CodeActionParams(document, EVERYWHERE, context)
        actions = await client.text_document_code_action_async(parameters)
        offered = {
            edited(text, edits)
            for action in actions
            for edits in (action.edit.changes or {}).values()
        }
        assert wanted <= offered, code
        fixed += len(wanted)
    assert fixed >= 10, f"{fixed} fixes"


async def test_the_plan_is_beside_the_text(client):
    document = opened(client)
    await planned(client)
    hints = await client.text_document_inlay_hint_async(types.InlayHintParams(document, EVERYWHERE))
    labels = [hint.label for hint in hints]
    assert any(re.match(r"\[B_XY, F\]", label) for label in labels), labels
    assert any(re.search(r"(AllReduce|ReduceScatter|AllGather).* \d.* [mu]s", label) for label in labels), labels
    (lens,) = await client.text_document_code_lens_async(types.CodeLensParams(document))
    assert re.match(r"step [\d.]+ ms .* memory [\d.]+ [MG]B of 96 GB", lens.command.title)
    hover = types.HoverParams(document, place(PROGRAM, "H = gelu"))
    text = (await client.text_document_hover_async(hover)).contents.value
    for part in ["[B_XY, F]", "GB", "on a device"]:
        assert part in text
    hover = types.HoverParams(document, place(PROGRAM, "Wout\n"))
    text = (await client.text_document_hover_async(hover)).contents.value
    assert "AllGather" in text and "559 us" in text, text
    assert "needed by line 11" in text, text


async def test_names_lead_to_each_other(client):
    document = opened(client)
    at = place(PROGRAM, "Win)")
    definition = types.DefinitionParams(document, at)
    definition = await client.text_document_definition_async(definition)
    definition = definition[0] if isinstance(definition, list) else definition
    assert definition.range.start == place(PROGRAM, "Win[")
    context = types.ReferenceContext(include_declaration=True)
    parameters = types.ReferenceParams(context, document, at)
    references = await client.text_document_references_async(parameters)
    assert [each.range.start for each in references] == [place(PROGRAM, "Win["), at]
    highlights = types.DocumentHighlightParams(document, at)
    assert len(await client.text_document_document_highlight_async(highlights)) == 2
    rename = await client.text_document_rename_async(types.RenameParams(document, at, "Wup"))
    assert edited(PROGRAM, rename.changes[document.uri]) == PROGRAM.replace("Win", "Wup")
    axis = types.RenameParams(document, place(PROGRAM, "X=4"), "Data")
    rename = await client.text_document_rename_async(axis)
    renamed = edited(PROGRAM, rename.changes[document.uri])
    assert "mesh Data=4" in renamed and "[B_X" not in renamed
    with pytest.raises(Exception, match="Wout"):
        await client.text_document_rename_async(types.RenameParams(document, at, "Wout"))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("hardware tpu-v", "tpu-v5e"),
        ("x[B_", "Y"),
        ("H = ge", "gelu"),
        ("gelu(", "Win"),
        ("\nout", "output"),
    ],
)
async def test_what_can_be_typed(client, words, wanted):
    text = PROGRAM[: PROGRAM.index(words) + len(words)]
    document = opened(client, text)
    parameters = types.CompletionParams(document, place(text + "$", "$"))
    answer = await client.text_document_completion_async(parameters)
    items = {item.label: item for item in getattr(answer, "items", answer)}
    assert wanted in items
    if wanted == "gelu":
        assert "gelu(" in str(items[wanted])


async def test_layout_and_outline(client):
    text = PROGRAM.replace("X=4, Y", "X=4 ,Y")
    document = opened(client, text)
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    parameters = types.DocumentFormattingParams(document, options)
    assert edited(text, await client.text_document_formatting_async(parameters)) == PROGRAM
    symbols = types.DocumentSymbolParams(document)
    symbols = await client.text_document_document_symbol_async(symbols)
    names = [symbol.name for symbol in symbols]
    assert {"X", "B", "x", "Win"} <= set(names), names
    block = next(symbol for symbol in symbols if symbol.children)
    assert "H" in [child.name for child in block.children]
    folds = await client.text_document_folding_range_async(types.FoldingRangeParams(document))
    assert place(text, "repeat").line in [fold.start_line for fold in folds]


async def test_parts_have_colors(client):
    document = opened(client)
    parameters = types.SemanticTokensParams(document)
    data = (await client.text_document_semantic_tokens_full_async(parameters)).data
    assert len(data) % 5 == 0 and len(data) > 5 * PROGRAM.count("\n")
