"""What is attacked: each target gives a function that makes one case and runs it."""

import base64
import hashlib
import json
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

from hostile_files import replacing, tables_with, write_zip_bomb

from driver import Case
from material import material
from mutations import INTEGERS, TEXTS, damage, damage_json, damage_message, to_bytes, to_tree
from seq2edge.bundle import tensor_names
from seq2edge.bundle.graph_vetting import MODEL
from seq2edge.bundle.protobuf import FIXED32, LEN, VARINT, Field, Message, MessageSchema

TIME_LIMIT = 0.5  # seconds of a call, less than the driver allows
SENTENCES = ["the old man sees a red house.", "nobody wants bread"]
PIECE = MessageSchema("piece", {1: Field(text=True), 2: Field(wire_type=FIXED32), 3: Field(wire_type=VARINT)})
SPECIFICATION = MessageSchema("specification", {2: Field()})
SENTENCEPIECE = MessageSchema(
    "model",
    {1: Field(inner=PIECE, repeated=True), 2: Field(inner=SPECIFICATION), 3: Field(inner=SPECIFICATION)},
)


class Place:
    """A copy of sound files in the folder of the case, which is sound again after every case."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder = source, folder / source.name
        shutil.copytree(source, self.folder, dirs_exist_ok=True)

    @contextmanager
    def changed(self, changes: dict[str, bytes]) -> Iterator[Path]:
        for name, content in changes.items():
            (self.folder / name).write_bytes(content)
        try:
            yield self.folder
        finally:
            for name in changes:
                if (self.source / name).exists():
                    shutil.copyfile(self.source / name, self.folder / name)
                else:
                    (self.folder / name).unlink(missing_ok=True)


class Places:
    """A copy of each of some folders, made when it is first wanted."""

    def __init__(self, kind: str) -> None:
        self.sources = sorted(path for path in (material() / kind).iterdir() if path.is_dir())
        self.made: dict[str, Place] = {}

    def one(self, chance: Random, folder: Path) -> Place:
        source = chance.choice(self.sources)
        if source.name not in self.made:
            self.made[source.name] = Place(source, folder)
        return self.made[source.name]


def use_bundle(folder: Path, chance: Random) -> None:
    """All that a user does with a bundle."""
    from seq2edge import Translator
    from seq2edge.cli.report import bundle_facts, describe_bundle
    from seq2edge.files.lines import CONTROL, visible

    with Translator(folder, threads=1, time_limit=TIME_LIMIT) as translator:
        options = chance.choice(({}, {"num_beams": 1}, {"num_beams": 3}))
        answers = translator.translate(SENTENCES, max_new_tokens=6, **options)
        assert all(isinstance(answer.text, str) for answer in answers)
        assert not CONTROL.search(visible("".join(answer.text for answer in answers)))
        if chance.random() < 0.3:
            translator.score(SENTENCES[:1], SENTENCES[1:])
        if chance.random() < 0.2:
            translator.translate(SENTENCES[:1], attention="all", max_new_tokens=3)
        if chance.random() < 0.2:
            translator.translate(SENTENCES)  # as long as the manifest says
    describe_bundle(translator.bundle, source_length=5, target_length=5)
    json.dumps(bundle_facts(translator.bundle, source_length=5, target_length=5))


def rehashed(folder: Path, changes: dict[str, bytes]) -> dict[str, bytes]:
    """The same with a manifest that says so: hashes keep nobody out who can write a manifest."""
    content = json.loads(changes.get(tensor_names.MANIFEST) or (folder / tensor_names.MANIFEST).read_bytes())
    for name, data in changes.items():
        if name in content["files"]:
            content["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    return {**changes, tensor_names.MANIFEST: json.dumps(content).encode()}


def files() -> Case:
    """Bytes of any file of a bundle, with and without hashes that fit, and files in each other's place."""
    places = Places("bundles")

    def case(chance: Random, folder: Path) -> None:
        place = places.one(chance, folder)
        known = sorted(path.name for path in place.source.iterdir())
        name, other = chance.choice(known), chance.choice(known)
        content = (place.source / name).read_bytes()
        changes = {name: damage(chance, content) if chance.random() < 0.9 else (place.source / other).read_bytes()}
        if chance.random() < 0.8 and name != tensor_names.MANIFEST:
            changes = rehashed(place.source, changes)
        with place.changed(changes) as bundle:
            use_bundle(bundle, chance)

    return case


def manifests() -> Case:
    """Values of the manifest."""
    places = Places("bundles")

    def case(chance: Random, folder: Path) -> None:
        place = places.one(chance, folder)
        content = (place.source / tensor_names.MANIFEST).read_bytes()
        with place.changed({tensor_names.MANIFEST: damage_json(chance, content)}) as bundle:
            use_bundle(bundle, chance)

    return case


def graphs() -> Case:
    """Fields of the graphs, and bombs built into them, always with hashes that fit."""
    places = Places("bundles")

    def case(chance: Random, folder: Path) -> None:
        place = places.one(chance, folder)
        name = chance.choice(sorted(path.name for path in place.source.glob("*.onnx")))
        content = (place.source / name).read_bytes()
        change = with_bomb if chance.random() < 0.25 else changed_fields
        with place.changed(rehashed(place.source, {name: change(chance, content)})) as bundle:
            use_bundle(bundle, chance)

    return case


def changed_fields(chance: Random, content: bytes) -> bytes:
    return damage_message(chance, content, MODEL)


def slowed(chance: Random, content: bytes) -> bytes:
    """A graph that multiplies matrices for longer than anyone waits, and then returns what it did before."""
    import onnx
    from hostile_bundle import slow_down

    model = onnx.load_from_string(content)
    slow_down(model, side=1, products=chance.choice((1, 100, 400)))
    return bytes(model.SerializeToString())


def newer() -> Case:
    """Graphs, manifests and files of bundles in other precisions and of other architectures."""
    places = Places("newer")

    def case(chance: Random, folder: Path) -> None:
        place = places.one(chance, folder)
        name = chance.choice(sorted(path.name for path in place.source.iterdir()))
        content = (place.source / name).read_bytes()
        if name == tensor_names.MANIFEST:
            changes = {name: damage_json(chance, content)}
        elif name.endswith(".onnx"):
            change = chance.choice((with_bomb, changed_fields, changed_fields))
            changes = rehashed(place.source, {name: change(chance, content)})
        else:
            changes = rehashed(place.source, {name: damage(chance, content)})
        with place.changed(changes) as bundle:
            use_bundle(bundle, chance)

    return case


def slow() -> Case:
    """Graphs that take longer than the time limit."""
    places = [Places("bundles"), Places("newer")]

    def case(chance: Random, folder: Path) -> None:
        place = chance.choice(places).one(chance, folder)
        name = chance.choice(sorted(path.name for path in place.source.glob("*.onnx")))
        content = slowed(chance, (place.source / name).read_bytes())
        with place.changed(rehashed(place.source, {name: content})) as bundle:
            use_bundle(bundle, chance)

    return case


def swapped() -> Case:
    """Files that become others while a translator has the bundle open."""
    places = [Places("bundles"), Places("newer")]

    def case(chance: Random, folder: Path) -> None:
        from seq2edge import Translator

        place = chance.choice(places).one(chance, folder)
        known = sorted(path.name for path in place.source.iterdir())
        name, other = chance.choice(known), chance.choice(known)
        content = (place.source / other).read_bytes()
        with Translator(place.folder, threads=1, time_limit=TIME_LIMIT) as translator:
            wanted = translator.translate(SENTENCES, max_new_tokens=3)
            with place.changed({}):
                (place.folder / name).unlink()  # a file that is mapped must not be written to
                (place.folder / name).write_bytes(damage(chance, content))
                try:
                    assert translator.translate(SENTENCES, max_new_tokens=3) == wanted
                    translator.score(SENTENCES[:1], SENTENCES[1:])
                finally:
                    shutil.copyfile(place.source / name, place.folder / name)

    return case


def with_bomb(chance: Random, content: bytes) -> bytes:
    """A graph with one more node that makes something large, in the place of an input of another node."""
    model = to_tree(Message(content, 0, len(content)), MODEL)
    graph = next(value for number, _, value in model if number == 7)
    nodes = [value for number, _, value in graph if number == 1]
    victim = chance.choice(nodes)
    inputs = [field for field in victim if field[0] == 1] or [[1, LEN, b""]]
    attacked = chance.choice(inputs)
    before, attacked[2] = attacked[2], b"bomb"
    kind = chance.choice(("ConstantOfShape", "Expand", "Tile", "Range", "Pad", "MatMul", "OneHot", "Chain"))
    for field in bomb(chance, kind, before):
        graph.insert(0, field)
    return to_bytes(model)


def bomb(chance: Random, kind: str, before: bytes) -> list[list[Any]]:
    """Nodes and constants that end in the value "bomb"."""
    size = chance.choice((10**5, 10**7, 3 * 10**8, 10**10, 2**40, 2**62))
    shape, one = constant(b"shape", 7, [2], struct.pack("<qq", size, chance.choice((1, 1000, size)))), b"one"
    ones = constant(one, 1, [1, 1], struct.pack("<f", 1.0))
    if kind == "ConstantOfShape":
        return [node(kind, [b"shape"], b"bomb"), shape]
    if kind in ("Expand", "Tile"):
        return [node(kind, [one, b"shape"], b"bomb"), shape, ones]
    if kind == "Pad":
        pads = constant(b"pads", 7, [4], struct.pack("<qqqq", 0, 0, size, size))
        return [node(kind, [one, b"pads"], b"bomb"), pads, ones]
    if kind == "Range":
        limits = [
            constant(name, 7, [], struct.pack("<q", value)) for name, value in ((b"a", 0), (b"b", size), (b"c", 1))
        ]
        return [node(kind, [b"a", b"b", b"c"], b"bomb"), *limits]
    if kind == "OneHot":
        depth = constant(b"depth", 7, [], struct.pack("<q", size))
        values = constant(b"values", 1, [2], struct.pack("<ff", 0, 1))
        return [node(kind, [before, b"depth", b"values"], b"bomb"), depth, values]
    if kind == "MatMul":
        side = constant(b"side", 7, [2], struct.pack("<qq", 8192, 8192))
        made = [node("ConstantOfShape", [b"side"], b"square"), node("MatMul", [b"square", b"square"], b"bomb")]
        return [made[1], made[0], side]
    doubled = [constant(b"two", 7, [1], struct.pack("<q", 2)), node("Shape", [before], b"v0")]
    doubled += [
        node("Mul", [f"v{i}".encode(), f"v{i}".encode()], f"v{i + 1}".encode()) for i in range(chance.choice((1, 3, 6)))
    ]
    last = doubled[-1][2][-2][2]
    return [node("ConstantOfShape", [last], b"bomb"), *reversed(doubled)]


def node(operator: str, inputs: list[bytes], output: bytes) -> list[Any]:
    fields = [[1, LEN, name] for name in inputs] + [[2, LEN, output], [4, LEN, operator.encode()]]
    return [1, LEN, fields]


def constant(name: bytes, kind: int, dims: list[int], raw: bytes) -> list[Any]:
    fields = [[1, VARINT, size] for size in dims] + [[2, VARINT, kind], [8, LEN, name], [9, LEN, raw]]
    return [5, LEN, fields]


def tokenizers() -> Case:
    """Files of every kind of vocabulary, and the settings around them."""
    places = Places("vocabularies")

    def case(chance: Random, folder: Path) -> None:
        place = places.one(chance, folder)
        kind = place.source.name
        name = chance.choice(sorted(path.name for path in place.source.iterdir()))
        content = (place.source / name).read_bytes()
        is_pieces = kind == "sentencepiece" or (kind == "pieces" and name == "codes")
        if is_pieces and chance.random() < 0.7:
            content = damage_message(chance, content, SENTENCEPIECE)
        elif name.endswith(".json") and chance.random() < 0.7:
            content = damage_json(chance, content)
        else:
            content = damage(chance, content)
        with place.changed({name: content}) as where:
            use_vocabulary(where, kind, chance)

    return case


def expanding() -> Case:
    """Vocabularies that make a text longer."""
    places = Places("vocabularies")
    places.sources = [path for path in places.sources if path.name in ("sentencepiece", "tokenizers", "pieces")]

    def case(chance: Random, folder: Path) -> None:
        place = places.one(chance, folder)
        kind = place.source.name
        name = {"sentencepiece": "file.model", "tokenizers": "file.json", "pieces": "codes"}[kind]
        change = expanding_tokenizer if kind == "tokenizers" else expanding_model
        with place.changed({name: change(chance, (place.source / name).read_bytes())}) as where:
            use_vocabulary(where, kind, chance)

    return case


def expanding_model(chance: Random, content: bytes) -> bytes:
    """A SentencePiece model that makes a text longer: by its tables, its pieces or its text for unknown tokens."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(content)
    size = chance.choice((1, 50, 100, 101, 5000, 10**6, 5 * 10**6))
    kind = chance.randrange(5)
    if kind < 3:
        tables = model.normalizer_spec.precompiled_charsmap or model.denormalizer_spec.precompiled_charsmap
        specification = model.denormalizer_spec if kind == 0 else model.normalizer_spec
        character = chance.choice((b"\t", b"\t", "①".encode(), "Å".encode(), "ﬁ".encode()))
        specification.precompiled_charsmap = tables_with(tables, any_text(chance, size), character)
    elif kind == 3:
        chance.choice(model.pieces).piece = "a" * size
    else:
        model.trainer_spec.unk_surface = "a" * size
        model.self_test_data.samples.add(input="a" * chance.choice((1, size)), expected="a")
    return bytes(model.SerializeToString())


def any_text(chance: Random, size: int) -> bytes:
    return chance.choice(
        (b"a" * size, b"\t" * size, "世".encode() * (size // 3), b"\x80" * size, chance.randbytes(min(size, 100)))
    )


def expanding_tokenizer(chance: Random, content: bytes) -> bytes:
    """A tokenizer.json with chains of components that each make a text longer."""
    tree = json.loads(content)
    for role, inner in (
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("post_processor", "processors"),
        ("decoder", "decoders"),
    ):
        if chance.random() < 0.5:
            count = chance.choice((1, 1, 2, 4, 20))
            components = [any_component(chance, role) for _ in range(count)]
            tree[role] = {"type": "Sequence", inner: components} if count > 1 else components[0]
            if chance.random() < 0.2:
                tree[role] = {"type": "Sequence", inner: [tree[role]] * chance.choice((1, 3, 40))}
    text = json.dumps(tree)
    return damage_json(chance, text.encode()) if chance.random() < 0.1 else text.encode()


def any_component(chance: Random, role: str) -> dict[str, Any]:
    size = chance.choice((0, 1, 1, 2, 9, 50, 1000, 10**5))
    letter = chance.choice(("a", "e", " ", "Ġ", "▁", ""))
    if role == "post_processor":
        template = [{"Sequence": {"id": "A", "type_id": 0}}] * chance.choice((1, 2, 100, 500))
        pair = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
        return {"type": "TemplateProcessing", "single": template, "pair": pair, "special_tokens": {}}
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": chance.random() < 0.5,
        "trim_offsets": True,
        "use_regex": False,
    }
    metaspace = {"type": "Metaspace", "replacement": letter or "x", "prepend_scheme": "always", "split": True}
    if role == "pre_tokenizer":
        split = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
        return chance.choice((byte_level, metaspace, split, {"type": "Digits", "individual_digits": True}))
    replace = replacing(letter, chance.choice(("a", "e", " ", "bc")) * size)
    regex = replacing(chance.choice(("a*", "\\s", ".", "(?=a)", "e+")), "e" * size, regex=True)
    if role == "decoder":
        ctc = {"type": "CTC", "pad_token": "z", "word_delimiter_token": letter, "cleanup": True}
        suffix = {"type": "BPEDecoder", "suffix": letter}
        pieces = {"type": "WordPiece", "prefix": letter, "cleanup": True}
        return chance.choice((replace, regex, ctc, suffix, pieces, metaspace, byte_level, {"type": "Fuse"}))
    tables = base64.b64encode(tables_with(_tables(), any_text(chance, size))).decode()
    return chance.choice(
        (
            replace,
            regex,
            byte_level,
            {"type": "Prepend", "prepend": "a" * size},
            {"type": "Precompiled", "precompiled_charsmap": tables},
            {"type": chance.choice(("NFKC", "NFKD", "Lowercase", "Nmt", "StripAccents"))},
        )
    )


@cache
def _tables() -> bytes:
    from sentencepiece import sentencepiece_model_pb2

    content = (material() / "vocabularies" / "sentencepiece" / "file.model").read_bytes()
    return bytes(sentencepiece_model_pb2.ModelProto.FromString(content).normalizer_spec.precompiled_charsmap)


def use_vocabulary(folder: Path, kind: str, chance: Random) -> None:
    from seq2edge.config.tokenizer import SpecialTokens, Tokenization
    from seq2edge.text.tokenizer import load_tokenizer

    file = next(path.name for path in folder.iterdir() if path.name.startswith("file"))
    codes = "codes" if (folder / "codes").exists() else ""
    kind = chance.choice((kind, "t5")) if kind == "sentencepiece" else kind
    kind = chance.choice((kind, "characters")) if kind == "words" else kind
    rules = Tokenization(source=file, target=file, kind=kind, source_codes=codes, target_codes=codes)  # type: ignore[arg-type]
    tokens = SpecialTokens(pad=0, bos=1, eos=2, unk=3)
    tokenizer = load_tokenizer(rules, tokens, {name: folder / name for name in ("codes", file)})
    texts = [*SENTENCES, "Grüße, 世界 🙂", "a" * 300, "ﬁ Å ①  \t x", ""]
    ids = tokenizer.encode(texts)
    tokenizer.decode(ids)
    for text, row in zip(texts, ids, strict=True):
        tokenizer.unknown_characters(text, row)
        tokenizer.tokenize_source(text)


def checkpoints() -> Case:
    """Files of the checkpoints of all families."""
    places = Places("checkpoints")

    def case(chance: Random, folder: Path) -> None:
        place = places.one(chance, folder)
        inner = sorted(path.name for path in place.source.iterdir() if path.is_file() and path.name != "README.md")
        name = chance.choice(inner)
        content = (place.source / name).read_bytes()
        if name.endswith(".json") and chance.random() < 0.8:
            content = damage_json(chance, content)
        elif name.endswith(".safetensors") and chance.random() < 0.7:
            content = damage_header(chance, content)
        elif is_archive(place.source / name):
            content = damage_zip(chance, content, folder) if chance.random() < 0.8 else damage(chance, content)
        else:
            content = damage(chance, content)
        use_checkpoint(place, name, content)

    return case


def archives() -> Case:
    """Checkpoints in archives that would take gigabytes when they are read."""
    places = Places("checkpoints")
    places.sources = [path for path in places.sources if any(map(is_archive, path.iterdir()))]

    def case(chance: Random, folder: Path) -> None:
        place = places.one(chance, folder)
        file = chance.choice(sorted(filter(is_archive, place.source.iterdir())))
        use_checkpoint(place, file.name, zip_bomb(chance, file.read_bytes(), folder))

    return case


def is_archive(path: Path) -> bool:
    return path.suffix in (".pt", ".bin", ".npz", ".argosmodel") and zipfile.is_zipfile(path)


def use_checkpoint(place: Place, name: str, content: bytes) -> None:
    from seq2edge_export.loaders import load_checkpoint

    single = name if name.endswith((".argosmodel", ".npz")) or place.source.name == "onmt" else ""
    with place.changed({name: content}) as where:
        file = next((path for path in where.iterdir() if path.suffix in (".argosmodel", ".npz")), None)
        onmt = where / "model_step_1.pt"
        load_checkpoint(onmt if onmt.exists() else file or where / single)


def zip_bomb(chance: Random, content: bytes, folder: Path) -> bytes:
    """An archive of some kilobytes that says, or hides, that a member has gigabytes."""
    path = folder / "bomb.zip"
    with zipfile.ZipFile(BytesIO(content)) as archive:
        name = chance.choice((chance.choice(archive.namelist()), "archive/data.pkl"))
    megabytes = chance.choice((1, 100, 2000))
    write_zip_bomb(path, megabytes, name, declared=chance.choice((None, None, 1000, 10**6)))
    made = path.read_bytes()
    path.unlink()
    return made


def damage_header(chance: Random, content: bytes) -> bytes:
    """Of a safetensors file: a length, JSON of that length, and numbers."""
    (length,) = struct.unpack("<Q", content[:8])
    header = damage_json(chance, content[8 : 8 + length])
    said = len(header) if chance.random() < 0.8 else chance.choice(INTEGERS) & 2**64 - 1
    return struct.pack("<Q", said) + header + content[8 + length :]


EVIL_PICKLES = (
    b"cos\nsystem\n(S'touch escaped'\ntR.",
    b"cbuiltins\neval\n(S'1'\ntR.",
    b"csubprocess\nPopen\n(S'ls'\ntR.",
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.",
    b"ctorch.hub\nload\n(S'x'\ntR.",
    b"(lp0\n" + b"(l" * 100_000 + b".",
    b"\x80\x02]" + b"]a" * 3,
)


def damage_zip(chance: Random, content: bytes, folder: Path) -> bytes:
    """Another archive: members damaged, renamed, blown up, or pickles that want to run something."""
    source, target = folder / "source.zip", folder / "target.zip"
    source.write_bytes(content)
    attacked = chance.randrange(len(zipfile.ZipFile(source).namelist()))
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for place, member in enumerate(old.infolist()):
            data, name = old.read(member), member.filename
            if place == attacked or (name.endswith("data.pkl") and chance.random() < 0.3):
                name, data = _other_member(chance, name, data)
            new.writestr(name, data, chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    made = target.read_bytes()
    for path in (source, target):
        path.unlink()
    return damage(chance, made) if chance.random() < 0.1 else made


def _other_member(chance: Random, name: str, data: bytes) -> tuple[str, bytes]:
    kind = chance.randrange(6)
    if name.endswith(".pkl") and kind < 4:
        return name, chance.choice(EVIL_PICKLES) if kind < 2 else damage(chance, data)
    if kind == 0:
        return chance.choice(
            ("../../escaped", "/tmp/escaped", name + "/x", "model/../../../escaped", *TEXTS[2:4])
        ), data
    if kind == 1:
        return name, bytes(60_000_000)  # a bomb, when it is packed
    if kind == 2 and name.endswith(".npy"):
        return name, data.replace(b"<f4", chance.choice((b"|O ", b">f4", b"<f8", b"<U4")))
    return name, damage(chance, data)


def parsers() -> Case:
    """Bytes for the parsers of our own, without all that comes behind them: the fastest cases."""
    found = _parser_samples()

    def case(chance: Random, folder: Path) -> None:
        read, content, form = chance.choice(found)
        path = folder / "file"
        if form is not None and chance.random() < 0.6:
            content = damage_message(chance, content, form)
        else:
            content = damage(chance, content)
        path.write_bytes(content)
        read(path)

    return case


def _parser_samples() -> list[tuple[Callable[[Path], object], bytes, MessageSchema | None]]:
    from seq2edge.bundle.bundle import read_graph
    from seq2edge.bundle.graph_vetting import vet_graph
    from seq2edge.bundle.onnx_file import read_onnx
    from seq2edge.engine.shortlist import read_shortlist
    from seq2edge.text.vocabularies.sentencepiece_vetting import vet_sentencepiece
    from seq2edge_export.loaders.ctranslate2.files import read_binary as read_ctranslate2
    from seq2edge_export.loaders.fairseq.files import scan_pickle
    from seq2edge_export.loaders.marian.files import read_archive
    from seq2edge_export.loaders.marian.files import read_binary as read_marian

    top = material()
    bundle = top / "bundles" / "ort-fp32"
    size = (bundle / tensor_names.WEIGHTS).stat().st_size
    checkpoints = top / "checkpoints"
    graph = (bundle / tensor_names.DECODER).read_bytes()
    pieces = (top / "vocabularies" / "sentencepiece" / "file.model").read_bytes()
    marian = next((checkpoints / "marian-native").glob("model*.bin")).read_bytes()
    return [
        (read_onnx, graph, MODEL),
        (lambda path: vet_graph(path, read_graph(path), weights_bytes=size), graph, MODEL),
        (lambda path: vet_sentencepiece(path.read_bytes(), path), pieces, SENTENCEPIECE),
        (read_shortlist, (top / "bundles" / "ort-fp32-shortlist" / tensor_names.SHORTLIST).read_bytes(), None),
        (read_ctranslate2, (checkpoints / "ctranslate2" / "model.bin").read_bytes(), None),
        (read_marian, marian, None),
        (read_archive, (checkpoints / "npz" / "model.npz").read_bytes(), None),
        (scan_pickle, (checkpoints / "fairseq" / "model.pt").read_bytes(), None),
    ]


TARGETS: dict[str, Callable[[], Case]] = {
    "files": files,
    "manifests": manifests,
    "graphs": graphs,
    "newer": newer,
    "slow": slow,
    "swapped": swapped,
    "tokenizers": tokenizers,
    "expanding": expanding,
    "checkpoints": checkpoints,
    "archives": archives,
    "parsers": parsers,
}
SHARES = {  # of 100
    "tokenizers": 25,
    "expanding": 10,
    "manifests": 18,
    "parsers": 17,
    "files": 8,
    "checkpoints": 5,
    "archives": 1,
    "graphs": 10,
    "newer": 4,
    "slow": 1,
    "swapped": 1,
}
