"""Adapters that read and reorder a batch system's queue; import one by its own module name."""
