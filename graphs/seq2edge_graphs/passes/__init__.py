"""Passes that edit one ONNX graph."""
