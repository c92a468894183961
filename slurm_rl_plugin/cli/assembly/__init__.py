"""Builds the hook and the batch system from a configuration; verbs only call them."""
