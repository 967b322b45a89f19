"""A sentence in a batch is decoded as it is alone, whichever others leave the batch and when."""

from dataclasses import replace

from seq2edge.bundle.bundle import EMBEDDED, load_bundle
from seq2edge.engine.engine import OnnxEngine
from seq2edge.search.batch_decode import decode

SOURCES = [[5 + 3 * row, 40 + row, 900 + row, *[60 + row] * (row % 4), 3] for row in range(10)]  # of several lengths


def test_sentences_that_end_with_their_first_token_leave_the_others_as_they_are() -> None:
    bundle = load_bundle(EMBEDDED)
    engine, options = OnnxEngine(bundle, threads=1), bundle.manifest.generation
    begin = replace(options, num_beams=2, num_return_sequences=2, max_new_tokens=1)
    ends = {found.tokens[0] for found in decode(engine, SOURCES[:1], begin)[0]}  # what the first sentence begins with
    options = replace(options, num_beams=2, eos_token_id=(*ends, 3), early_stopping=True, max_new_tokens=12)
    together = [found[0].tokens for found in decode(engine, SOURCES, options)]
    assert 1 == len(together[0]) < max(map(len, together))
    assert together == [decode(engine, [source], options)[0][0].tokens for source in SOURCES]
