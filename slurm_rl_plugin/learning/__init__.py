"""Offline learning: training loads, trainers, evaluation, ONNX export."""
