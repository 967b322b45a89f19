#!/bin/sh
# The main job on the embedded model: checkpoint -> bundles in every precision -> translations. Run by `make demo`.
set -eu
out=build/demo
dev="--input models/en-de/dev.en --reference models/en-de/dev.de"
echo "1. export the PyTorch checkpoint models/en-de"
seq2edge export models/en-de "$out/fp32" --force
echo
echo "2. make it smaller"
for precision in fp16 int8 int4; do
    set --
    # Two thirds of what 4 bits lose come from the embedding, so that is kept in 8.
    test $precision = int4 && set -- --calibrate models/en-de/calibration.en --keep-precision '*embedding*'
    seq2edge quantize "$out/fp32" "$out/$precision" --precision $precision $dev "$@" --force
done
echo
echo "3. translate with 4 bits"
for text in "Good morning." "Where is the nearest train station?" "Tom would like to learn German." \
    "My sister bought a new bicycle last week."; do
    german=$(seq2edge translate -m "$out/int4" "$text")
    printf '  %-45s %s\n' "$text" "$german"
done
echo
echo "4. what the bundle holds and costs"
seq2edge inspect "$out/int8"
