#!/bin/sh
# share.sh SHARDWISE FOLDER: the manual pages and completion scripts of a command, laid out as below
# /usr/share. A wheel has them if they are in cli/shardwise.data/data/share when it is built.
set -eu
shardwise=$1
share=$2
pages=$(mktemp -d)
trap 'rm -r "$pages"' EXIT

"$(dirname "$0")/pages.sh" "$shardwise" "$pages"
put() {
  mkdir -p "$share/$2"
  cp "$1" "$share/$2/$3"
}
for page in "$pages"/man/*.1; do
  put "$page" man/man1 "$(basename "$page")"
done
put "$pages/completions/shardwise.bash" bash-completion/completions shardwise
put "$pages/completions/_shardwise" zsh/site-functions _shardwise
put "$pages/completions/shardwise.fish" fish/vendor_completions.d shardwise.fish
