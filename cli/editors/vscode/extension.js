// Starts `shardwise lsp` for programs, connects the editor with it, and shows reports.

const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");
const preview = require("./preview");

let client;

exports.activate = async function (context) {
  context.subscriptions.push(
    commands.registerCommand("shardwise.showReport", preview.show),
    workspace.onDidSaveTextDocument((document) => preview.refresh(document.fileName)),
    window.onDidChangeActiveColorTheme(preview.refreshAll),
  );
  const settings = workspace.getConfiguration("shardwise");
  const server = {
    command: settings.get("command"),
    args: ["lsp", ...settings.get("arguments")],
  };
  const options = {
    documentSelector: [{ language: "shardwise" }],
    synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.toml") },
  };
  client = new LanguageClient("shardwise", "shardwise", server, options);
  await client.start();
};

exports.deactivate = function () {
  return client?.stop();
};
