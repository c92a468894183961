"""Readers of accounting logs; import one by its own module name."""
