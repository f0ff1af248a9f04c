"""Models for serving: SavedModel, LiteRT, ONNX."""
