// Measures how long an editor waits: `node latency.cjs SHARDWISE` edits a program of a thousand
// lines, and prints the median and the longest time until diagnostics of each edit arrive, and until
// requests after it are answered; on Linux also the processor time of the thread that answers, which
// other work on the machine does not change.

const { spawn } = require("node:child_process");
const { existsSync, readFileSync } = require("node:fs");

const EDITS = 30;
const uri = "file:///latency.shard";
const lines = ["hardware tpu-v5p", "mesh X=16, Y=16", "dim B=4096, D=8192, F=32768", "input x0[B_X, D]"];
let last = 0;
while (lines.length < 999) {
  const [now, next] = [last, ++last];
  lines.push(`param win${now}[D_X, F_Y], wout${now}[F_Y, D_X]`);
  lines.push(`h${now}[B_X, F_Y] = x${now} *D win${now}`);
  lines.push(`a${now} = gelu(h${now})`);
  lines.push(`x${next}[B_X, D] = a${now} *F wout${now}`);
}
lines.push(`output x${last}[B_X, D]`);

const server = spawn(process.argv[2], ["lsp"], { stdio: ["pipe", "pipe", "inherit"] });
const waiting = [];
let received = Buffer.alloc(0);
server.stdout.on("data", (data) => {
  received = Buffer.concat([received, data]);
  for (;;) {
    const head = received.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(/Content-Length: (\d+)/.exec(received.subarray(0, head))[1]);
    if (received.length < head + 4 + length) return;
    const message = JSON.parse(received.subarray(head + 4, head + 4 + length));
    received = received.subarray(head + 4 + length);
    const at = waiting.findIndex((wait) => wait.is(message));
    if (at >= 0) waiting.splice(at, 1)[0].resolve(message);
  }
});

function send(message) {
  const text = JSON.stringify({ jsonrpc: "2.0", ...message });
  server.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}

function until(is) {
  return new Promise((resolve) => waiting.push({ is, resolve }));
}

let requests = 0;
function request(method, params) {
  const id = ++requests;
  send({ id, method, params });
  return until((message) => message.id === id && !message.method);
}

function diagnostics(version) {
  return until((message) => message.params?.version === version && message.params.diagnostics);
}

// Milliseconds that the first thread of the server has run.
function processor() {
  const path = `/proc/${server.pid}/schedstat`;
  return existsSync(path) ? Number(readFileSync(path, "utf8").split(" ")[0]) / 1e6 : 0;
}

function print(what, times) {
  times.sort((a, b) => a - b);
  const show = (time) => `${time.toFixed(1)} ms`;
  console.log(`${what}: median ${show(times[times.length >> 1])}, longest ${show(times.at(-1))}`);
}

async function main() {
  await request("initialize", { processId: null, rootUri: null, capabilities: {} });
  send({ method: "initialized", params: {} });
  const text = lines.join("\n") + "\n";
  send({
    method: "textDocument/didOpen",
    params: { textDocument: { uri, languageId: "shardwise", version: 0, text } },
  });
  await diagnostics(0);
  const [edits, processed, answers] = [[], [], []];
  for (let version = 1; version <= EDITS; version++) {
    // A letter is typed into an operand, and removed again.
    const place = { line: 500 - (500 % 4) + 5, character: 0 };
    const line = lines[place.line];
    const start = { line: place.line, character: line.length };
    const end = { line: place.line, character: line.length + 1 };
    const change = version % 2 ? { range: { start, end: start }, text: "z" } : { range: { start, end }, text: "" };
    const [begun, run] = [performance.now(), processor()];
    const shown = diagnostics(version);
    send({
      method: "textDocument/didChange",
      params: { textDocument: { uri, version }, contentChanges: [change] },
    });
    await shown;
    edits.push(performance.now() - begun);
    processed.push(processor() - run);
    const asked = performance.now();
    const textDocument = { uri };
    const range = { start: { line: 0, character: 0 }, end: { line: 1000, character: 0 } };
    await Promise.all([
      request("textDocument/semanticTokens/full", { textDocument }),
      request("textDocument/documentSymbol", { textDocument }),
      request("textDocument/inlayHint", { textDocument, range }),
      request("textDocument/completion", { textDocument, position: start }),
    ]);
    answers.push(performance.now() - asked);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  print(`${lines.length} lines, an edit to its diagnostics`, edits);
  print("of this, processor time", processed);
  print("then tokens, outline, hints and completion together", answers);
  await request("shutdown", null);
  send({ method: "exit", params: null });
}

main();
