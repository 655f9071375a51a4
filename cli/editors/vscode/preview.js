// The report of a program beside its text: `shardwise plan --format html`, run again at each save.

const { execFile } = require("node:child_process");
const path = require("node:path");
const { ColorThemeKind, ViewColumn, window, workspace } = require("vscode");

// The longest report, in bytes.
const LONGEST = 16 << 20;

const panels = new Map();

/** Shows the report of the program that is edited. */
exports.show = function () {
  const document = window.activeTextEditor?.document;
  if (document?.languageId !== "shardwise" || document.isUntitled) {
    window.showInformationMessage("Open a program *.shard that is saved, to show its report.");
    return;
  }
  const file = document.fileName;
  if (!panels.has(file)) {
    const title = `${path.basename(file)}: report`;
    const column = { viewColumn: ViewColumn.Beside, preserveFocus: true };
    const options = { enableScripts: true, retainContextWhenHidden: true, localResourceRoots: [] };
    const panel = window.createWebviewPanel("shardwise.report", title, column, options);
    panel.onDidDispose(() => panels.delete(file));
    panels.set(file, { panel, runs: 0 });
  }
  panels.get(file).panel.reveal(ViewColumn.Beside, true);
  return refresh(file);
};

/** Writes the report again, if it is shown. */
exports.refresh = refresh;

/** Writes all reports that are shown again. */
exports.refreshAll = () => Promise.all([...panels.keys()].map(refresh));

async function refresh(file) {
  const shown = panels.get(file);
  if (!shown) return;
  const run = ++shown.runs;
  const html = await report(file);
  // A later run has a newer text.
  if (run === shown.runs && panels.has(file)) shown.panel.webview.html = html;
}

function report(file) {
  const settings = workspace.getConfiguration("shardwise");
  const options = settings.get("reportArguments");
  const command = ["plan", file, "--format", "html", "--color", "never", ...options];
  const setting = { cwd: path.dirname(file), maxBuffer: LONGEST };
  return new Promise((resolve) => {
    execFile(settings.get("command"), command, setting, (error, stdout, stderr) => {
      resolve(themed(stdout || failed(stderr || error.message)));
    });
  });
}

// The page follows the system's theme; here it follows the editor's.
function themed(html) {
  const kind = window.activeColorTheme.kind;
  const isDark = kind === ColorThemeKind.Dark || kind === ColorThemeKind.HighContrast;
  const media = isDark ? "@media screen {" : "@media not all {";
  return html
    .replace("@media screen and (prefers-color-scheme: dark) {", media)
    .replace("color-scheme: light dark;", `color-scheme: ${isDark ? "dark" : "light"};`);
}

function failed(message) {
  const entities = { "&": "&amp;", "<": "&lt;" };
  const text = message.replace(/[&<]/g, (character) => entities[character]);
  const policy = "default-src 'none'; style-src 'unsafe-inline'";
  return `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}"></head>
<body><h2>There is no report</h2><pre>${text}</pre></body></html>`;
}
