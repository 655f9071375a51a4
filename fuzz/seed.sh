#!/usr/bin/env bash
# Fills the corpora with the programs of the tests, so that fuzzing starts from valid programs. Bytes
# before a text choose what is made of it (`Input::chosen`); numbers become programs and models.
set -euo pipefail
cd "$(dirname "$0")"
for target in parse syntax print_parse plan_verify resolve plan verify explain diff json hardware pairs; do
  mkdir -p "corpus/$target"
done
none=$(printf '%040d' 0 | tr 0 '\001')
find ../tests/programs -name '*.shard' | while read -r file; do
  name=$(echo "$file" | md5sum | cut -c1-16)
  cp "$file" "corpus/parse/$name"
  cp "$file" "corpus/syntax/$name"
  { printf '\0'; cat "$file"; } > "corpus/print_parse/$name"
  # Of the kinds of `resolve` the third, of `plan` the only one, is a mutant, here of the text.
  { printf '\002\003\0%s' "$none"; cat "$file"; } > "corpus/resolve/$name"
  { printf '\003\003\0'; cat "$file"; } > "corpus/resolve/$name-text"
  { printf '\0\003\0%s' "$none"; cat "$file"; } > "corpus/plan/$name"
done
find ../tests/programs -name '*.toml' | while read -r file; do
  { printf '\0\001\0'; cat "$file"; } > "corpus/hardware/$(echo "$file" | md5sum | cut -c1-16)"
done
for number in $(seq 0 63); do
  numbers=$(seq "$number" "$((number + 60))" | md5sum)$(seq "$number" | md5sum)
  for target in plan_verify print_parse plan verify explain diff json; do
    printf "\\x$(printf %02x "$number")\\x0$((number % 3))\\x0$((number % 7))%s" "$numbers" \
      > "corpus/$target/$number"
  done
  printf "\\x0$((number % 7))\\x0$((number % 2))\\0\\0%s" "$numbers" > "corpus/pairs/$number"
done
