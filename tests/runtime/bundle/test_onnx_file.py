"""ONNX files are read completely; truncated, damaged and other files are refused with a one-sentence error."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.bundle.onnx_file import OnnxFile, Tensor, Value, read_onnx
from seq2edge.errors import BundleError

ENCODER = (DEFAULT_BUNDLE / tensor_names.ENCODER).read_bytes()
FLOAT32, INT8, STRING, INT4 = 1, 3, 8, 22


def varint(value: int) -> bytes:
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def field(number: int, value: int | bytes | str) -> bytes:
    """One protobuf field."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(dtype: int, dims: list[int], *more: bytes) -> bytes:
    return b"".join(field(1, size) for size in dims) + field(2, dtype) + b"".join(more)


def node(operator: str, *more: bytes) -> bytes:
    return field(1, field(4, operator) + b"".join(more))  # as a field of a graph


def model(graph: bytes, *more: bytes) -> bytes:
    return field(1, 10) + field(7, graph) + field(8, field(2, 20)) + b"".join(more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("onnx")


def read(folder: Path, content: bytes) -> OnnxFile:
    path = folder / "a.onnx"
    path.write_bytes(content)
    return read_onnx(path)


def refused(folder: Path, content: bytes) -> str:
    with pytest.raises(BundleError, match=r"a\.onnx is not an ONNX model, or is damaged: ") as caught:
        read(folder, content)
    return str(caught.value)


def test_the_default_encoder_is_read() -> None:
    file, manifest = (
        read_onnx(DEFAULT_BUNDLE / tensor_names.ENCODER),
        load_bundle(DEFAULT_BUNDLE, check_hashes=False).manifest,
    )
    shape = manifest.architecture
    assert shape is not None
    assert (file.opsets["ai.onnx"], file.size) == (manifest.opset, len(ENCODER))
    assert file.producer.startswith("pytorch 2.")
    assert file.inputs[0] == Value(
        name=tensor_names.SOURCE, type="int64", shape=(tensor_names.BATCH, tensor_names.SOURCE_LENGTH)
    )
    assert [value.name for value in file.outputs] == tensor_names.cross(shape.decoder_layers)
    assert file.outputs[0].shape == (tensor_names.BATCH, shape.heads, tensor_names.SOURCE_LENGTH, shape.head_width)
    assert file.operators["com.microsoft.MultiHeadAttention"] == shape.encoder_layers
    assert list(file.operators.values()) == sorted(file.operators.values(), reverse=True)
    weights = [tensor for tensor in file.tensors if tensor.location == tensor_names.WEIGHTS]
    assert weights
    assert (
        max(tensor.offset + tensor.bytes for tensor in weights)
        <= (DEFAULT_BUNDLE / tensor_names.WEIGHTS).stat().st_size
    )


def test_operators_and_tensors_of_nested_graphs_and_functions_are_included(folder: Path) -> None:
    inner = node("Add") + node("Add") + field(5, tensor(INT8, [5]))
    branches = field(5, field(6, inner)) + field(5, field(11, node("Mul")) + field(11, node("If")))
    constant = field(5, field(5, tensor(FLOAT32, [2, 3])))
    function = field(25, field(7, field(4, "Relu") + field(7, "com.microsoft")))
    file = read(folder, model(node("If", branches) + node("Constant", constant), function))
    assert file.operators == {"Add": 2, "If": 2, "Constant": 1, "Mul": 1, "com.microsoft.Relu": 1}
    assert sorted((found.type, found.bytes) for found in file.tensors) == [("float32", 24), ("int8", 5)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (tensor(FLOAT32, []), Tensor(name="", type="float32", dims=(), bytes=4)),
        (tensor(FLOAT32, [0, 7]), Tensor(name="", type="float32", dims=(0, 7), bytes=0)),
        (tensor(INT4, [5]), Tensor(name="", type="int4", dims=(5,), bytes=3)),
        (tensor(STRING, [2], field(6, "ab"), field(6, "c")), Tensor(name="", type="string", dims=(2,), bytes=3)),
        (field(1, b"\x02\x80\x01") + field(2, INT8), Tensor(name="", type="int8", dims=(2, 128), bytes=256)),  # packed
        (
            tensor(
                INT8,
                [4],
                field(8, "w"),
                field(14, 1),
                field(13, field(1, "location") + field(2, "w.bin")),
                field(13, field(1, "offset") + field(2, "4096")),
            ),
            Tensor(name="w", type="int8", dims=(4,), bytes=4, location="w.bin", offset=4096),
        ),
    ],
)
def test_the_bytes_of_a_tensor_follow_from_its_type_and_shape(folder: Path, content: bytes, expected: Tensor) -> None:
    assert read(folder, model(field(5, content))).tensors == (expected,)


def test_the_indices_of_a_sparse_tensor_are_included(folder: Path) -> None:
    sparse = field(15, field(1, tensor(FLOAT32, [3])) + field(2, tensor(7, [3])))
    assert [found.bytes for found in read(folder, model(sparse)).tensors] == [12, 24]


def test_values_keep_their_type_and_shape(folder: Path) -> None:
    axes = field(1, field(1, 3)) + field(1, field(2, "n")) + field(1, b"") + field(1, field(1, 0))
    types = {
        "full": field(2, field(1, field(1, FLOAT32) + field(2, axes))),
        "no shape": field(2, field(1, field(1, FLOAT32))),
        "scalar": field(2, field(1, field(1, FLOAT32) + field(2, b""))),
        "list": field(2, field(4, b"")),
        "nothing": b"",
    }
    file = read(folder, model(b"".join(field(12, field(1, name) + type_) for name, type_ in types.items())))
    assert [(value.type, value.shape) for value in file.outputs] == [
        ("float32", (3, "n", None, 0)),
        ("float32", None),
        ("float32", ()),
        ("sequence", None),
        ("", None),
    ]


def test_a_constant_that_is_also_listed_as_an_input_is_not_an_input(folder: Path) -> None:
    graph = field(11, field(1, "x")) + field(11, field(1, "w")) + field(5, tensor(INT8, [1], field(8, "w")))
    assert [value.name for value in read(folder, model(graph)).inputs] == ["x"]


def test_large_data_is_not_loaded(folder: Path) -> None:
    size = 200_000_000
    head = tensor(INT8, [size]) + varint(9 << 3 | 2) + varint(size)
    graph = varint(5 << 3 | 2) + varint(len(head) + size) + head
    path = folder / "large.onnx"
    with path.open("wb") as file:
        file.write(field(1, 10) + field(8, field(2, 20)) + varint(7 << 3 | 2) + varint(len(graph) + size) + graph)
        file.truncate(file.tell() + size)
    tracemalloc.start()
    assert read_onnx(path).tensors[0].bytes == size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    path.unlink()
    assert peak < 1_000_000


def test_deeply_nested_graphs_are_read(folder: Path) -> None:
    graph = node("Add")
    for _ in range(3000):
        graph = node("If", field(5, field(6, graph)))
    assert read(folder, model(graph)).operators == {"If": 3000, "Add": 1}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"{}\n", "wire type 3, which is not supported"),
        (b"\x00\x00", "a field number 0"),
        (b"\x08" + b"\xff" * 11, "an integer of more than 64 bits"),
        (model(b"")[:-1], "it ends in the middle of a field"),
        (field(1, 10) + field(8, field(2, 20)), "it lacks a format version, a graph"),
        (field(7, b"") + field(8, field(2, 20)), "it lacks a format version, a graph"),
        (field(1, 10) + field(7, 5) + field(8, field(2, 20)), "field 7 is an integer"),
        (model(field(5, tensor(99, [1], field(8, "w")))), "'w' has an invalid type or shape"),
        (model(field(5, tensor(INT8, [-1]))), "an invalid type or shape"),
        (model(field(5, tensor(INT8, [2] * 65))), "an invalid type or shape"),
        (
            model(field(5, tensor(INT8, [1], field(14, 1), field(13, field(1, "offset") + field(2, "x"))))),
            "the invalid offset 'x'",
        ),
    ],
)
def test_what_is_not_onnx_is_refused_with_the_reason(folder: Path, content: bytes, why: str) -> None:
    assert why in refused(folder, content)


@pytest.mark.parametrize("name", [tensor_names.MANIFEST, tensor_names.WEIGHTS, "tokenizer.model"])
def test_the_other_files_of_a_bundle_are_not_onnx(name: str) -> None:
    with pytest.raises(BundleError, match="is not an ONNX model"):
        read_onnx(DEFAULT_BUNDLE / name)


def test_a_folder_or_a_missing_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "a.onnx"):
        with pytest.raises(BundleError, match="is missing or not a plain file"):
            read_onnx(path)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(ENCODER) - 1))
def test_a_truncated_file_is_refused(folder: Path, length: int) -> None:
    try:
        cut = read(folder, ENCODER[:length])
    except BundleError:
        return
    whole = read_onnx(DEFAULT_BUNDLE / tensor_names.ENCODER)  # what was cut off comes after the graph
    assert (cut.operators, cut.tensors, cut.outputs) == (whole.operators, whole.tensors, whole.outputs)


def complaint(folder: Path, content: bytes) -> str:
    """Return the error message, or nothing if the file can be read; any other exception fails the test."""
    try:
        read(folder, content)
    except BundleError as error:
        return str(error)
    return ""


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_give_at_most_a_one_line_error(folder: Path, content: bytes) -> None:
    for whole in (content, model(content), model(field(1, content)), model(field(5, content))):
        assert "\n" not in complaint(folder, whole)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(ENCODER) - 8), st.binary(min_size=8, max_size=8))
def test_damaged_bytes_give_at_most_a_one_line_error(folder: Path, start: int, damage: bytes) -> None:
    assert "\n" not in complaint(folder, ENCODER[:start] + damage + ENCODER[start + 8 :])
