"""The operators that a graph in a bundle may use; needs nothing.

Those of our own graphs, and the ordinary mathematics of modules of the user's own. None that holds a graph, reads a
file, makes text or draws random numbers.
"""

ONNXRUNTIME = "com.microsoft"

_STANDARD = """
Abs Acos Add And ArgMax ArgMin Asin Atan Attention AveragePool BatchNormalization BitShift BitwiseAnd BitwiseNot
BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum
DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten
Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM
LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul MatMulInteger Max MaxPool Mean
MeanVarianceNormalization Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow QLinearMatMul QuantizeLinear
RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare Relu Reshape RotaryEmbedding Round ScatterElements ScatterND Selu Shape Shrink
Sigmoid Sign SimplifiedLayerNormalization Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt
Squeeze Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor
"""


_OWN = """
BiasGelu DecoderMaskedMultiHeadAttention DynamicQuantizeMatMul FastGelu FusedMatMul GatherBlockQuantized Gelu
GroupQueryAttention MatMulIntegerToFloat MatMulNBits MultiHeadAttention QuickGelu RotaryEmbedding
SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization
"""
STANDARD_OPERATORS = frozenset(_STANDARD.split())
OWN_OPERATORS = frozenset(_OWN.split())  # of onnxruntime, in the dialect "ort" alone


# Inputs that say how large an output is, by operator and place.
SIZES: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1),
    "Reshape": (1,),
    "Tile": (1,),
}
ENDS = {"Slice": (1, 2)}  # inputs that may be as large as an integer can be: as far as there is something
AT_LEAST_ONE = frozenset({"num_heads", "kv_num_heads", "K", "N", "bits", "block_size"})  # attributes to divide by
