"""seq2edge's graph layer: shaping ONNX graphs without PyTorch."""
