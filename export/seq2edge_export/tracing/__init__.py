"""Trace PyTorch modules to ONNX graphs."""
