// The preview of the VS Code extension with a stand-in for the editor: `node preview.cjs PREVIEW.js
// SHARDWISE PROGRAM`. It ends with an error if the report is not shown, or not again after a save.

const assert = require("node:assert");
const { readFileSync, writeFileSync } = require("node:fs");
const Module = require("node:module");

const [preview, command, program] = process.argv.slice(2);
const panels = [];
const vscode = {
  ColorThemeKind: { Light: 1, Dark: 2, HighContrast: 3, HighContrastLight: 4 },
  ViewColumn: { Beside: -2 },
  window: {
    activeColorTheme: { kind: 2 },
    activeTextEditor: {
      document: { languageId: "shardwise", isUntitled: false, fileName: program },
    },
    createWebviewPanel(_id, title, _column, options) {
      const panel = { title, options, webview: { html: "" }, reveal() {} };
      panel.onDidDispose = (listener) => (panel.dispose = listener);
      panels.push(panel);
      return panel;
    },
  },
  workspace: {
    getConfiguration: () => ({
      get: (name) => ({ command, reportArguments: ["--strategy", "textbook"] })[name],
    }),
  },
};
const load = Module._load;
Module._load = (name, ...others) => (name === "vscode" ? vscode : load(name, ...others));
const { refresh, refreshAll, show } = require(preview);

async function main() {
  await show();
  await show();
  const [panel, ...others] = panels;
  assert.strictEqual(others.length, 0, "one panel for a program");
  assert.ok(panel.options.enableScripts, "the page has a script");
  assert.ok(panel.webview.html.includes('id="timeline"'));
  assert.ok(!panel.webview.html.includes("prefers-color-scheme"), "it follows the editor");
  assert.ok(panel.webview.html.includes("color-scheme: dark;"));
  vscode.window.activeColorTheme.kind = 1;
  await refreshAll();
  assert.ok(panel.webview.html.includes("color-scheme: light;"));

  const text = readFileSync(program, "utf8");
  writeFileSync(program, text + "input Saved[D]\n");
  await refresh(program);
  assert.ok(panel.webview.html.includes("Saved"), "it is shown again");
  writeFileSync(program, text + "output <Missing>\n");
  await refresh(program);
  assert.ok(/There is no report/.test(panel.webview.html));
  assert.ok(panel.webview.html.includes("&lt;Missing>"), panel.webview.html);
  writeFileSync(program, text);
  await refresh(program + ".other");
  panel.dispose();
  const closed = panel.webview.html;
  await refresh(program);
  assert.strictEqual(panel.webview.html, closed);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
