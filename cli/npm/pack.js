// node pack.js FOLDER SYSTEM=BINARY…: packs `shardwise` for npm, and the package of each system
// (linux-x64, darwin-arm64, …) with its binary. Prints the archives. Manual pages and completions
// are those that the binary of this system writes.

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

function mainPackage(binary) {
  if (!binary) throw new Error(`no binary for this system is given: ${thisSystem}=BINARY`);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "shardwise-npm-"));
  for (const file of ["package.json", "shardwise.js", "README.md"]) {
    fs.copyFileSync(path.join(__dirname, file), path.join(folder, file));
  }
  const pages = path.join(__dirname, "../release/pages.sh");
  execFileSync("sh", [pages, path.resolve(binary), folder]);
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
const thisSystem = `${process.platform}-${process.arch}`;
const binaries = new Map(systems.map((given) => given.split("=")));
fs.mkdirSync(out, { recursive: true });
const folders = [...binaries].map(([system, binary]) => platformPackage(system, binary));
folders.push(mainPackage(binaries.get(thisSystem)));
for (const folder of folders) {
  console.log(pack(folder, out));
  fs.rmSync(folder, { recursive: true });
}
