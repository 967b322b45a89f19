#!/bin/sh
# Export the default checkpoint, quantize it and translate with the result. Run by `make demo`.
set -eu
out=build/demo
model=models/en-pt
dev="--input $model/dev.en --reference $model/dev.pt"
echo "1. export the PyTorch checkpoint $model"
seq2edge export $model "$out/fp32" --force
echo
echo "2. quantize the bundle"
for precision in fp16 int8 int4; do
    set --
    # Keep the embedding, which 4 bits change most, and the decoder, which has only two layers, in int8.
    test $precision = int4 && set -- --calibrate $model/calibration.en --keep-precision '*embedding*' \
        --keep-precision 'decoder.*'
    seq2edge quantize "$out/fp32" "$out/$precision" --precision $precision $dev "$@" --force
done
echo
echo "3. translate with int8"
seq2edge translate -m "$out/int8" -i $model/sentences.en -o "$out/sentences.pt" --force
paste -d '\n' $model/sentences.en "$out/sentences.pt" | sed 'N; s/^/  /; s/\n/\n      /'
echo
echo "4. inspect the int8 bundle"
seq2edge inspect "$out/int8"
