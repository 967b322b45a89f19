"""What the messages of a graph in a bundle may hold, by the numbers of ``onnx.proto``; needs nothing.

No functions, no graphs inside graphs, no sparse tensors, no sequences: our graphs have none, so a message of any depth
or of any other kind is refused before onnxruntime sees it.
"""

from seq2edge.protobuf import FOUR, VARINT, Field, Form

TEXT, TEXTS = Field(text=True), Field(text=True, repeated=True)
INTEGER, INTEGERS = Field(kind=VARINT), Field(kind=VARINT, repeated=True)
FLOAT, FLOATS = Field(kind=FOUR), Field(kind=FOUR, repeated=True)
BYTES = Field()


def _one(form: Form) -> Field:
    return Field(inner=form)


def _several(form: Form) -> Field:
    return Field(inner=form, repeated=True)


ENTRY = Form("pair of texts", {1: TEXT, 2: TEXT})
OPSET = Form("set of operators", {1: TEXT, 2: INTEGER})
TENSOR = Form(
    "tensor",
    {
        1: INTEGERS,  # dims
        2: INTEGER,  # data_type
        4: FLOATS,  # float_data
        5: INTEGERS,  # int32_data
        7: INTEGERS,  # int64_data
        8: TEXT,  # name
        9: BYTES,  # raw_data
        12: TEXT,  # doc_string
        13: _several(ENTRY),  # external_data
        14: INTEGER,  # data_location
        16: _several(ENTRY),  # metadata_props
    },
)
AXIS = Form("axis", {1: INTEGER, 2: TEXT, 3: TEXT})
SHAPE = Form("shape", {1: _several(AXIS)})
TENSOR_TYPE = Form("type of a tensor", {1: INTEGER, 2: _one(SHAPE)})
TYPE = Form("type", {1: _one(TENSOR_TYPE), 6: TEXT})
VALUE = Form("value", {1: TEXT, 2: _one(TYPE), 3: TEXT, 4: _several(ENTRY)})
ATTRIBUTE = Form(
    "attribute",
    {
        1: TEXT,  # name
        2: FLOAT,
        3: INTEGER,
        4: BYTES,
        5: _one(TENSOR),
        7: FLOATS,
        8: INTEGERS,
        9: Field(repeated=True),  # strings
        13: TEXT,  # doc_string
        20: INTEGER,  # type
    },
)
NODE = Form(
    "node", {1: TEXTS, 2: TEXTS, 3: TEXT, 4: TEXT, 5: _several(ATTRIBUTE), 6: TEXT, 7: TEXT, 9: _several(ENTRY)}
)
GRAPH = Form(
    "graph",
    {
        1: _several(NODE),
        2: TEXT,  # name
        5: _several(TENSOR),
        10: TEXT,  # doc_string
        11: _several(VALUE),
        12: _several(VALUE),
        13: _several(VALUE),
        16: _several(ENTRY),
    },
)
MODEL = Form(
    "model",
    {
        1: INTEGER,
        2: TEXT,
        3: TEXT,
        4: TEXT,
        5: INTEGER,
        6: TEXT,
        7: _one(GRAPH),
        8: _several(OPSET),
        14: _several(ENTRY),
    },
)
