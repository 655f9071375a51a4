#!/usr/bin/env node
// Runs the binary of the package that npm installed for this system.

const { spawnSync } = require("node:child_process");

const system = `${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "shardwise.exe" : "shardwise";

function binary() {
  try {
    return require.resolve(`@shardwise/${system}/bin/${file}`);
  } catch {
    console.error(
      `error: the package @shardwise/${system} is not installed. Where npm has one for this system,\n` +
        "  install again without --no-optional; otherwise `cargo install --locked shardwise-cli`\n" +
        "  builds it.",
    );
    process.exit(2);
  }
}

const result = spawnSync(binary(), process.argv.slice(2), { stdio: "inherit" });
if (result.error) throw result.error;
if (result.signal) process.kill(process.pid, result.signal);
process.exitCode = result.status;
