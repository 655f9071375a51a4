#!/bin/sh
# run.sh ARGUMENTS: runs the `shardwise` on PATH; where there is none, the release of this version,
# which install.sh puts into the user's cache once. The pre-commit hooks call it.
#   SHARDWISE_CACHE     the folder of that cache, which has a folder for each version
set -eu
if command -v shardwise >/dev/null; then
  exec shardwise "$@"
fi
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version=.*:-\(.*\)}$/\1/p' "$here/install.sh")
cache=${SHARDWISE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/shardwise}/v$version
if ! [ -x "$cache/shardwise" ] && ! [ -x "$cache/shardwise.exe" ]; then
  SHARDWISE_VERSION=$version SHARDWISE_FOLDER=$cache "$here/install.sh" >&2
fi
exec "$cache/shardwise" "$@"
