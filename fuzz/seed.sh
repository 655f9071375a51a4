#!/usr/bin/env bash
# Fills the corpora with the programs of the tests, so that fuzzing starts from valid programs.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p corpus/parse corpus/print_parse corpus/plan_verify corpus/laws
find ../tests/programs -name '*.shard' | while read -r file; do
  name=$(echo "$file" | md5sum | cut -c1-16)
  cp "$file" "corpus/parse/$name"
  { printf '\0'; cat "$file"; } > "corpus/print_parse/$name"
  { printf "\0\2"; cat "$file"; } > "corpus/laws/$name"
done
text="seed of numbers for a program,"
for shape in 0 5 9 14 18 26 37 46; do
  printf "\\x$(printf %02x "$shape")$text %s" "$shape" > "corpus/plan_verify/$shape"
  printf "\\x$(printf %02x "$((shape + 1))")$text %s" "$shape" > "corpus/print_parse/$shape"
done
