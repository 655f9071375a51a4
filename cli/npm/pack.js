// node pack.js FOLDER SYSTEM=BINARY…: packs `shardwise` for npm, and the package of each system
// (linux-x64, darwin-arm64, …) with its binary. Prints the archives.

const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const main = require("./package.json");

function platformPackage(system, binary) {
  const name = `@shardwise/${system}`;
  if (main.optionalDependencies[name] !== main.version) {
    throw new Error(`package.json does not name ${name} at ${main.version}`);
  }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "shardwise-npm-"));
  const [platform, processor] = system.split("-");
  const file = platform === "win32" ? "bin/shardwise.exe" : "bin/shardwise";
  fs.mkdirSync(path.join(folder, "bin"));
  fs.copyFileSync(binary, path.join(folder, file));
  fs.chmodSync(path.join(folder, file), 0o755);
  const { version, license, repository } = main;
  const description = `The command shardwise for ${platform} on ${processor}.`;
  const about = { name, version, description, license, repository, files: ["bin"] };
  const manifest = { ...about, os: [platform], cpu: [processor] };
  fs.writeFileSync(path.join(folder, "package.json"), JSON.stringify(manifest, null, 2) + "\n");
  return folder;
}

function pack(folder, out) {
  const options = ["pack", "--silent", "--pack-destination", path.resolve(out)];
  // On Windows npm is a script of the shell.
  return execFileSync("npm", options, { cwd: folder, shell: process.platform === "win32" })
    .toString()
    .trim();
}

const [out, ...systems] = process.argv.slice(2);
fs.mkdirSync(out, { recursive: true });
for (const [system, binary] of systems.map((given) => given.split("="))) {
  const folder = platformPackage(system, binary);
  console.log(pack(folder, out));
  fs.rmSync(folder, { recursive: true });
}
console.log(pack(__dirname, out));
