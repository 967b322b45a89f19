#!/bin/sh
# The main job on the embedded model: checkpoint -> bundle -> translations. Run by `make demo`.
set -eu
out=build/demo/en-de
echo "1. export the PyTorch checkpoint models/en-de"
seq2edge export models/en-de "$out" --force
echo
echo "2. translate with the bundle"
for text in "Good morning." "Where is the nearest train station?" "Tom would like to learn German." \
    "My sister bought a new bicycle last week."; do
    german=$(seq2edge translate -m "$out" "$text")
    printf '  %-45s %s\n' "$text" "$german"
done
echo
echo "3. what the bundle holds and costs"
seq2edge inspect "$out"
