#!/bin/sh
# pages.sh SHARDWISE FOLDER: the manual pages and completion scripts of a command, below a folder.
set -eu
shardwise=$1
folder=$2

mkdir -p "$folder/completions"
"$shardwise" man "$folder/man"
"$shardwise" completions bash > "$folder/completions/shardwise.bash"
"$shardwise" completions zsh > "$folder/completions/_shardwise"
"$shardwise" completions fish > "$folder/completions/shardwise.fish"
"$shardwise" completions powershell > "$folder/completions/_shardwise.ps1"
