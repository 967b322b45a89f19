"""A checkpoint written as a Hugging Face folder has the same logits and outputs in transformers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_checkpoint import TINY, random_model, write_checkpoint
from tolerances import network_rounding
from transformers import AutoModelForSeq2SeqLM

from seq2edge.bench.workload import search_options
from seq2edge.config.architecture import Architecture
from seq2edge.search.batch_decode import decode
from seq2edge_export.checkpoint import Checkpoint, load_checkpoint
from seq2edge_export.peers.generate import translate
from seq2edge_export.peers.hugging_face import unsupported, write_folder
from seq2edge_export.peers.interface import generate_arguments
from seq2edge_export.source_model import TorchEngine

LOGITS = network_rounding(TINY, size=10)
POST_NORM = replace(TINY, norm_first=False, final_norm=False)
SHAPES = {
    "Pegasus, interleaved sinusoids": TINY,
    "Pegasus, a bias and SiLU": replace(TINY, output_bias=True, activation="silu", embedding_scale=1.0),
    "Marian, sines before cosines": replace(POST_NORM, positions="sinusoidal_halves"),
    "Marian, interleaved sinusoids": replace(POST_NORM, activation="gelu"),
    "Marian, starting from a zero vector": replace(POST_NORM, zero_start=True, output_bias=True),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load_checkpoint(write_checkpoint(tmp_path_factory.mktemp("peer") / "checkpoint"))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_folder_is_the_same_model(tiny: Checkpoint, tmp_path: Path, shape: Architecture) -> None:
    config = replace(tiny.config, architecture=shape)
    source_model = replace(tiny, config=config, model=random_model(shape, 7)).source_model()
    write_folder(source_model, tmp_path)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(str(tmp_path)).eval()
    sources = source_model.tokenizer().encode(["the old man sees a red house.", "nobody sells some bread."])
    for num_beams in (1, 3):
        options = search_options(source_model.generation, num_beams=num_beams, longest=24)
        found = decode(TorchEngine(source_model.graphs, pad=source_model.tokens.pad), sources, options)
        assert translate(theirs, sources, generate_arguments(options)) == [best.tokens for best, *_ in found]
    source, target = torch.tensor(sources[:1]), torch.tensor([[2, 40, 50]])
    start = target.clone()
    start[0, 0] = theirs.config.decoder_start_token_id
    with torch.no_grad():
        ours = replace(tiny, model=random_model(shape, 7)).model(source, source > -1, target)
        logits = theirs(input_ids=source, decoder_input_ids=start).logits[..., : shape.target_vocabulary]
    torch.testing.assert_close(logits, ours, rtol=0, atol=LOGITS)


def test_every_unsupported_feature_is_named() -> None:
    shape = replace(TINY, final_norm=False, gated=True, embedding_norm=True, joint_vocabulary=False)
    assert len(unsupported(shape)) == 4
    assert unsupported(TINY) == []
