"""A trained network as an ONNX file with a manifest and a card, and back."""
