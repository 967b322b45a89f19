#!/bin/sh
# Export the embedded checkpoint, quantize it and translate with the result. Run by `make demo`.
set -eu
out=build/demo
dev="--input models/en-de/dev.en --reference models/en-de/dev.de"
echo "1. export the PyTorch checkpoint models/en-de"
seq2edge export models/en-de "$out/fp32" --force
echo
echo "2. quantize the bundle"
for precision in fp16 int8 int4; do
    set --
    # Two thirds of the loss of int4 come from the embedding, so keep it in int8.
    test $precision = int4 && set -- --calibrate models/en-de/calibration.en --keep-precision '*embedding*'
    seq2edge quantize "$out/fp32" "$out/$precision" --precision $precision $dev "$@" --force
done
echo
echo "3. translate with int4"
for text in "Good morning." "Where is the nearest train station?" "Tom would like to learn German." \
    "My sister bought a new bicycle last week."; do
    german=$(seq2edge translate -m "$out/int4" "$text")
    printf '  %-45s %s\n' "$text" "$german"
done
echo
echo "4. inspect the int8 bundle"
seq2edge inspect "$out/int8"
