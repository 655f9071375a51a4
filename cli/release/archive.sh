#!/bin/sh
# archive.sh TARGET BINARY FOLDER: the archive of a release for a target such as
# x86_64-unknown-linux-musl, and its checksum. Its name is the one that install.sh asks for, and that
# `cargo binstall` reads in cli/Cargo.toml.
set -eu
target=$1
binary=$2
folder=$3
root=$(cd "$(dirname "$0")/../.." && pwd)

version=$("$binary" --version | cut -d ' ' -f 2)
name=shardwise-v$version-$target
staged=$(mktemp -d)
trap 'rm -r "$staged"' EXIT

mkdir -p "$staged/$name" "$folder"
cp "$binary" "$staged/$name/"
"$root/cli/release/pages.sh" "$binary" "$staged/$name"
for file in README.md CHANGELOG.md LICENSE LICENSE-APACHE LICENSE-MIT; do
  cp "$root/$file" "$staged/$name/"
done
tar -C "$staged" -czf "$folder/$name.tar.gz" "$name"

cd "$folder"
if command -v sha256sum >/dev/null; then
  sha256sum "$name.tar.gz" > "$name.tar.gz.sha256"
else
  shasum -a 256 "$name.tar.gz" > "$name.tar.gz.sha256"
fi
echo "$name.tar.gz"
