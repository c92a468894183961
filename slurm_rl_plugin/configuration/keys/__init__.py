"""What may be configured: each key with its type, default, bounds and meaning."""
