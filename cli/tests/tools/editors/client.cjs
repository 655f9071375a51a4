// An editor with the libraries that VS Code uses: `node client.cjs SHARDWISE PROGRAM`, in a folder
// where they are installed. It ends with an error if an answer is not as expected.

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const { createRequire } = require("node:module");
const { readFileSync } = require("node:fs");
const { pathToFileURL } = require("node:url");

const installed = createRequire(process.cwd() + "/");
const protocol = installed("vscode-languageserver-protocol/node");

const [command, program] = process.argv.slice(2);
const uri = pathToFileURL(program).href;
const text = readFileSync(program, "utf8");
const document = { uri };

async function main() {
  const server = spawn(command, ["lsp"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => server.on("exit", resolve));
  const connection = protocol.createProtocolConnection(
    new protocol.StreamMessageReader(server.stdout),
    new protocol.StreamMessageWriter(server.stdin),
  );
  const found = [];
  connection.onNotification(protocol.PublishDiagnosticsNotification.type, (params) =>
    found.push(params.diagnostics.map((it) => it.code)),
  );
  const planned = new Promise((resolve) =>
    connection.onRequest(protocol.InlayHintRefreshRequest.type, resolve),
  );
  connection.listen();

  const refresh = { refreshSupport: true };
  const { capabilities } = await connection.sendRequest(protocol.InitializeRequest.type, {
    processId: process.pid,
    rootUri: null,
    capabilities: { workspace: { inlayHint: refresh } },
  });
  assert.strictEqual(capabilities.positionEncoding, "utf-16");
  await connection.sendNotification(protocol.InitializedNotification.type, {});
  await connection.sendNotification(protocol.DidOpenTextDocumentNotification.type, {
    textDocument: { uri, languageId: "shardwise", version: 1, text },
  });
  await planned;

  const symbols = await connection.sendRequest(protocol.DocumentSymbolRequest.type, {
    textDocument: document,
  });
  const value = symbols.find((symbol) => symbol.name === "Tmp");
  const position = value.selectionRange.start;
  const place = { textDocument: document, position };
  const hover = await connection.sendRequest(protocol.HoverRequest.type, place);
  assert.match(hover.contents.value, /on a device/);
  const hints = await connection.sendRequest(protocol.InlayHintRequest.type, {
    textDocument: document,
    range: { start: { line: 0, character: 0 }, end: { line: 999, character: 0 } },
  });
  assert.ok(hints.some((hint) => /AllGather/.test(hint.label)), JSON.stringify(hints));
  const references = await connection.sendRequest(protocol.ReferencesRequest.type, {
    ...place,
    context: { includeDeclaration: true },
  });
  assert.ok(references.length > 1);
  const [lens] = await connection.sendRequest(protocol.CodeLensRequest.type, {
    textDocument: document,
  });
  assert.match(lens.command.title, /^step /);

  await connection.sendNotification(protocol.DidChangeTextDocumentNotification.type, {
    textDocument: { uri, version: 2 },
    contentChanges: [{ range: { start: position, end: position }, text: "= " }],
  });
  await connection.sendRequest(protocol.ShutdownRequest.type);
  assert.ok(found.at(-1).length > 0, "an error is shown");
  await connection.sendNotification(protocol.ExitNotification.type);
  assert.strictEqual(await ended, 0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
