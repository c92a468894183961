"""Whether a warning comes before half of a model's gain is lost, on the logs' history (ours)."""
