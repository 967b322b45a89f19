"""Load checkpoints in fairseq's format and compare with a reference implementation."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq_checkpoint import (
    JOINT,
    POSITIONS,
    POST_NORM,
    SOURCE_TOKENS,
    TARGET_TOKENS,
    TEXTS,
    VARIANTS,
    Reference,
    as_cfg,
    as_omegaconf,
    pretended_modules,
    save,
    seeded_state,
    settings_of,
    write_dictionary,
    write_folder,
)
from scripts_text import sentences, train_sentencepiece
from sentencepiece import SentencePieceProcessor
from tolerances import FLOAT64, log_probability_rounding, network_rounding

from seq2edge import Translator
from seq2edge.config.tokenizer import Moses
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import detect, load_checkpoint
from seq2edge_export.loaders.fairseq.vocabulary import read_dictionary


def ids_of(checkpoint: Checkpoint, texts: list[str] = TEXTS) -> list[list[int]]:
    return checkpoint.source_model().tokenizer().encode(texts)


def check(checkpoint: Checkpoint, reference: Reference) -> None:
    """Compare logits of random targets, in a padded batch and one sentence at a time."""
    random = torch.Generator().manual_seed(5)
    sources = ids_of(checkpoint)
    longest = max(map(len, sources))
    batch = torch.tensor([[*ids, *[1] * (longest - len(ids))] for ids in sources])
    made = torch.randint(2, checkpoint.model.architecture.target_vocabulary, (len(sources), 9), generator=random)
    targets = torch.cat([torch.full((len(sources), 1), 2), made], dim=1)
    with torch.no_grad():
        found = checkpoint.model.double()(batch, batch != 1, targets)
    limit = network_rounding(checkpoint.model.architecture, size=found.abs().max().item(), epsilon=FLOAT64)
    for row, ids in enumerate(sources):
        torch.testing.assert_close(found[row], reference.logits(ids, targets[row].tolist()), rtol=0, atol=limit)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_every_kind_of_model_computes_what_fairseq_computes(tmp_path: Path, changes: dict[str, Any]) -> None:
    settings = settings_of(changes)
    checkpoint = load_checkpoint(write_folder(tmp_path, settings))
    assert checkpoint.family == "fairseq"
    check(checkpoint, Reference(seeded_state(settings), settings))
    shape = checkpoint.model.architecture
    assert shape.max_positions == POSITIONS
    assert shape.joint_vocabulary == settings["share_all_embeddings"]
    assert shape.tied_output == settings["share_decoder_input_output_embed"]


def test_a_bundle_outputs_the_tokens_of_fairseqs_search(tmp_path: Path) -> None:
    settings = settings_of({**POST_NORM, "max_len_b": 11})
    folder = write_folder(tmp_path / "checkpoint", settings)
    reference = Reference(seeded_state(settings), settings)
    export_bundle(folder, tmp_path / "bundle", compare=False)  # with the model, which other tests do
    translator = Translator(tmp_path / "bundle", threads=1)
    shape, sources = translator.manifest.architecture, ids_of(load_checkpoint(folder))
    wanted = [reference.greedy(ids, longest=12) for ids in sources]
    assert len({tuple(tokens) for tokens in wanted}) > 1
    assert [list(one.tokens) for one in translator.translate(TEXTS, num_beams=1)] == wanted
    for result, ids in zip(translator.translate(TEXTS), sources, strict=True):  # beam 5
        tokens = list(result.tokens)
        scores = reference.logits(ids, [2, *tokens[:-1]]).log_softmax(dim=-1)
        mean = float(scores[range(len(tokens)), tokens].sum()) / len(tokens)
        assert result.score == pytest.approx(mean, abs=log_probability_rounding(network_rounding(shape, size=30)))
        assert result.ended == (tokens[-1] == 2)


def test_search_options_are_those_of_fairseq_or_of_the_checkpoint(tmp_path: Path) -> None:
    plain = load_checkpoint(write_folder(tmp_path / "args", settings_of())).generation
    assert (plain.num_beams, plain.length_penalty, plain.early_stopping) == (5, 1.0, True)
    assert (plain.decoder_start_token_id, plain.eos_token_id, plain.pad_token_id) == (2, 2, 1)
    assert (plain.min_new_tokens, plain.max_new_tokens) == (1, POSITIONS)  # 201, if there were so many positions
    assert plain.suppress_tokens == (1,)
    said = load_checkpoint(
        write_folder(tmp_path / "cfg", settings_of(), args=None, cfg=as_cfg(settings_of()))
    ).generation
    assert (said.num_beams, said.length_penalty, said.max_new_tokens) == (3, 0.5, 21)


def test_settings_are_read_in_all_their_forms(tmp_path: Path) -> None:
    settings = settings_of({"layernorm_embedding": True, "decoder_layers": 2})
    reference = Reference(seeded_state(settings), settings)
    write_folder(tmp_path, settings)
    config = as_omegaconf(settings)
    with pretended_modules():
        save(tmp_path / "model.pt", {"args": None, "cfg": config}, settings)
    check(load_checkpoint(tmp_path), reference)
    save(tmp_path / "model.pt", {"args": None, "cfg": as_cfg(settings)}, settings)
    check(load_checkpoint(tmp_path), reference)


def test_files_of_torch_before_zip_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of()
    new_save = torch.save
    monkeypatch.setattr(torch, "save", lambda *given: new_save(*given, _use_new_zipfile_serialization=False))
    write_folder(tmp_path, settings)
    assert (tmp_path / "model.pt").read_bytes()[:2] != b"PK"
    check(load_checkpoint(tmp_path), Reference(seeded_state(settings), settings))


def test_old_names_of_tensors_are_read(tmp_path: Path) -> None:
    settings = settings_of()
    state = seeded_state(settings)
    old = dict(state)
    for side, norms in (("encoder", ("self_attn", "final")), ("decoder", ("self_attn", "encoder_attn", "final"))):
        for layer in range(settings[f"{side}_layers"]):
            name = f"{side}.layers.{layer}"
            for number, norm in enumerate(norms):
                for kind in ("weight", "bias"):
                    old[f"{name}.layer_norms.{number}.{kind}"] = old.pop(f"{name}.{norm}_layer_norm.{kind}")
            for kind in ("weight", "bias"):
                parts = [old.pop(f"{name}.self_attn.{letter}_proj.{kind}") for letter in "qkv"]
                old[f"{name}.self_attn.in_proj_{kind}"] = torch.cat(parts)
    old["decoder.embed_out"] = old.pop("decoder.output_projection.weight")
    old["encoder.embed_positions.weights"] = torch.zeros(3, 3)
    old["encoder.layers.0.in_proj_weight"] = torch.zeros(3, 3)  # which fairseq 0.12 leaves there
    check(load_checkpoint(write_folder(tmp_path, settings, old)), Reference(state, settings))


def test_old_models_have_no_final_norm(tmp_path: Path) -> None:
    settings = settings_of()
    state = {name: tensor for name, tensor in seeded_state(settings).items() if "coder.layer_norm" not in name}
    for side in ("encoder", "decoder"):
        state[f"{side}.version"] = torch.tensor([1.0])
    checkpoint = load_checkpoint(write_folder(tmp_path, settings, state))
    assert not checkpoint.model.architecture.final_norm
    check(checkpoint, Reference(state, settings))


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    settings = settings_of()
    half = {name: tensor.half() for name, tensor in seeded_state(settings).items()}
    check(load_checkpoint(write_folder(tmp_path, settings, half)), Reference(half, settings))


def test_ids_of_a_dictionary_follow_four_special_tokens(tmp_path: Path) -> None:
    path = tmp_path / "dict.en.txt"
    path.write_text("a 12\n\u00a0b 3\nc d 2\n<unk> 1 #fairseq:overwrite\n", encoding="utf-8")
    numbers = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 7, "a": 4, "\u00a0b": 5, "c d": 6}
    assert read_dictionary(path) == numbers
    for content, message in (
        ("a 1\na 2\n", "line 2: 'a' already has the id 4"),
        ("a\n", "'a' is not a token and a"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(CheckpointError, match=message):
            read_dictionary(path)


def test_byte_pairs_are_split_and_joined(tmp_path: Path) -> None:
    tokenizer = load_checkpoint(write_folder(tmp_path, settings_of())).source_model().tokenizer()
    numbers = {token: 4 + number for number, token in enumerate(SOURCE_TOKENS)}
    assert tokenizer.encode(["the  see man q"]) == [[*(numbers[t] for t in ("the", "see", "m@@")), 3, 3, 2]]
    ids = [4 + TARGET_TOKENS.index(token) for token in ("al@@", "te", "Ma@@", "nn", ".")]
    assert tokenizer.decode([[*ids, 3, 2]]) == ["alte Mann . <unk>"]


def test_a_dictionary_of_pieces_is_tokenized_with_sentencepiece(tmp_path: Path) -> None:
    settings = settings_of({**JOINT, "bpe": "sentencepiece", "sentencepiece_model": "/gone/spm.model"})
    folder = write_folder(tmp_path, settings)
    (folder / "spm.model").write_bytes(train_sentencepiece(sentences(), 250))
    model = SentencePieceProcessor(model_file=str(folder / "spm.model"))
    pieces = [model.id_to_piece(number) for number in range(3, model.get_piece_size())]
    state = seeded_state(settings)
    table = torch.randn(4 + len(pieces), 16)
    state |= {name: table for name in state if "embed_tokens" in name or "output_projection" in name}
    save(folder / "model.pt", {"args": None, "cfg": as_cfg(settings)}, settings, state)  # which does not say it
    for language in ("en", "de"):
        write_dictionary(folder / f"dict.{language}.txt", pieces)
    text = "the old man sees a red house."
    tokenizer = load_checkpoint(folder).source_model().tokenizer()
    assert tokenizer.encode([text]) == [[*(4 + pieces.index(piece) for piece in model.encode(text, out_type=str)), 2]]
    assert tokenizer.decode(tokenizer.encode([text])) == [text]


def test_a_dictionary_without_subwords_has_words_as_tokens(tmp_path: Path) -> None:
    settings = settings_of(JOINT)
    folder = write_folder(tmp_path, settings)
    for language in ("en", "de"):
        write_dictionary(folder / f"dict.{language}.txt", [token.replace("@@", "+") for token in SOURCE_TOKENS])
    tokenizer = load_checkpoint(folder).source_model().tokenizer()
    assert tokenizer.encode(["the\u00a0see  ol+ xyz"]) == [[4, 4 + SOURCE_TOKENS.index("see"), 5, 3, 2]]


@pytest.mark.parametrize(
    ("settings", "tokens", "wanted"),
    [
        ({"tokenizer": "moses"}, [], Moses(source_language="en", target_language="de")),
        (
            {"tokenizer": "moses", "moses_source_lang": "fr", "moses_no_escape": True, "moses_no_dash_splits": True},
            [],
            Moses(source_language="fr", target_language="de", dash_splits=False, escape=False),
        ),
        ({}, ["&apos;"], Moses(source_language="en", target_language="de", dash_splits=False)),
        ({}, ["&quot;", "@-@"], Moses(source_language="en", target_language="de")),
        ({"tokenizer": "space"}, ["&apos;"], None),
        ({}, [], None),
    ],
)
def test_moses_is_named_or_recognized_in_the_dictionary(
    tmp_path: Path, settings: dict[str, Any], tokens: list[str], wanted: Moses | None
) -> None:
    folder = write_folder(tmp_path, settings_of(settings))
    write_dictionary(folder / "dict.en.txt", [*tokens, *SOURCE_TOKENS[len(tokens) :]])
    rules = load_checkpoint(folder).tokenization
    assert rules.moses == wanted
    assert rules.plain_spaces == (settings.get("tokenizer") == "space")
    assert rules.split == "blanks"


def test_the_files_may_be_where_fairseq_leaves_them(tmp_path: Path) -> None:
    settings = settings_of({"source_lang": None, "target_lang": None})
    made = write_folder(tmp_path / "made", settings)
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "data-bin" / "tiny.en-de").mkdir(parents=True)
    shutil.copy(made / "model.pt", folder / "checkpoints" / "checkpoint_best.pt")
    shutil.copy(made / "model.pt", folder / "checkpoints" / "checkpoint1.pt")
    for name in ("dict.en.txt", "dict.de.txt", "bpecodes"):
        shutil.copy(made / name, folder / "data-bin" / "tiny.en-de" / name.replace("bpecodes", "en-de.bpe.code"))
    for path in (folder, folder / "checkpoints", folder / "checkpoints" / "checkpoint1.pt"):
        checkpoint = load_checkpoint(path)
        assert (checkpoint.config.source_language, checkpoint.config.target_language) == ("en", "de")
        check(checkpoint, Reference(seeded_state(settings), settings))


def test_unnamed_languages_are_found_by_the_sizes_of_their_dictionaries(tmp_path: Path) -> None:
    unnamed = {"source_lang": None, "target_lang": None}
    config = load_checkpoint(write_folder(tmp_path / "sizes", settings_of(unnamed))).config
    assert (config.source_language, config.target_language) == ("en", "de")
    with pytest.raises(CheckpointError, match="does not name which of the languages de, en is the source"):
        load_checkpoint(write_folder(tmp_path / "alike", settings_of({**unnamed, **JOINT})))
    config = load_checkpoint(write_folder(tmp_path / "corpus.de-en", settings_of({**unnamed, **JOINT}))).config
    assert (config.source_language, config.target_language) == ("de", "en")


def test_fairseq_is_recognized_and_other_files_are_not(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "checkpoint", settings_of())
    assert detect(folder) == detect(folder / "model.pt") == "fairseq"
    torch.save({"model": seeded_state(settings_of())}, tmp_path / "weights.pt")
    with pytest.raises(CheckpointError, match="seq2edge recipe"):
        detect(tmp_path / "weights.pt")
    (tmp_path / "text.pt").write_text("no pickle")
    with pytest.raises(CheckpointError, match="seq2edge recipe"):
        detect(tmp_path / "text.pt")
    assert detect(tmp_path) == "seq2edge"
