// Starts `shardwise lsp` for programs, and connects the editor with it.

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async function () {
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
