#!/bin/sh
# Installs the command `shardwise` from the archive of a release, after comparing its checksum.
# No Rust is needed. Variables that change what it does:
#   SHARDWISE_VERSION   the version to install
#   SHARDWISE_FOLDER    where the command is put (~/.local/bin)
#   SHARDWISE_RELEASES  the address of the releases, such as that of a mirror or file:///folder
set -eu
version=${SHARDWISE_VERSION:-0.1.0}
folder=${SHARDWISE_FOLDER:-$HOME/.local/bin}
releases=${SHARDWISE_RELEASES:-https://github.com/shardwise/shardwise/releases/download}

fail() {
  echo "error: $1" >&2
  exit 1
}

binary=shardwise
case $(uname -sm) in
  'Linux x86_64') target=x86_64-unknown-linux-musl ;;
  'Linux aarch64' | 'Linux arm64') target=aarch64-unknown-linux-musl ;;
  'Darwin x86_64') target=x86_64-apple-darwin ;;
  'Darwin arm64') target=aarch64-apple-darwin ;;
  MINGW*x86_64 | MSYS*x86_64 | CYGWIN*x86_64)
    target=x86_64-pc-windows-msvc
    binary=shardwise.exe
    ;;
  *) fail "there is no release for $(uname -sm); \`cargo install --locked shardwise-cli\` builds it" ;;
esac

name=shardwise-v$version-$target
loaded=$(mktemp -d)
trap 'rm -r "$loaded"' EXIT
for file in "$name.tar.gz" "$name.tar.gz.sha256"; do
  curl -fsSL --retry 3 -o "$loaded/$file" "$releases/v$version/$file" ||
    fail "cannot download $releases/v$version/$file"
done

expected=$(cut -d ' ' -f 1 "$loaded/$name.tar.gz.sha256")
if command -v sha256sum >/dev/null; then
  found=$(sha256sum "$loaded/$name.tar.gz" | cut -d ' ' -f 1)
else
  found=$(shasum -a 256 "$loaded/$name.tar.gz" | cut -d ' ' -f 1)
fi
[ -n "$expected" ] && [ "$found" = "$expected" ] ||
  fail "the checksum of $name.tar.gz is $found, not $expected: nothing is installed"

tar -C "$loaded" -xzf "$loaded/$name.tar.gz"
mkdir -p "$folder"
# Renamed into place, so that one that is running is not written to.
cp "$loaded/$name/$binary" "$folder/.$binary.$$"
mv -f "$folder/.$binary.$$" "$folder/$binary"
echo "$folder/$binary"
