"""Nodes of several kinds: where jobs find room by CPUs, memory and GPUs, and when."""
