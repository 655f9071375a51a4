#!/bin/sh
# Installs the command `shardwise` from the archive of a release, after comparing its checksum.
# No Rust is needed. Variables that change what it does:
#   SHARDWISE_VERSION   the version to install
#   SHARDWISE_FOLDER    where the command is put (~/.local/bin); beside a folder `bin`, manual pages
#                       and completions are put into `share`
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
  *) fail "there is no release for $(uname -sm); \`cargo install --locked --git https://github.com/shardwise/shardwise shardwise-cli\` builds it" ;;
esac

name=shardwise-v$version-$target
loaded=$(mktemp -d)
trap 'rm -r "$loaded"' EXIT
for file in "$name.tar.gz" "$name.tar.gz.sha256"; do
  curl -fsSL --retry 3 -o "$loaded/$file" "$releases/v$version/$file" ||
    fail "cannot download $releases/v$version/$file: perhaps there is no release $version for this system yet; \
with Rust, \`cargo install --locked --git https://github.com/shardwise/shardwise shardwise-cli\` builds the command"
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
if [ "$(basename "$folder")" = bin ]; then
  share=$(dirname "$folder")/share
  put() {
    mkdir -p "$share/$2"
    cp "$loaded/$name/$1" "$share/$2/$3"
  }
  for page in "$loaded/$name"/man/*.1; do
    put "man/$(basename "$page")" man/man1 "$(basename "$page")"
  done
  put completions/shardwise.bash bash-completion/completions shardwise
  put completions/_shardwise zsh/site-functions _shardwise
  put completions/shardwise.fish fish/vendor_completions.d shardwise.fish
fi
echo "$folder/$binary"
