"""The heuristics of RLScheduler (Zhang et al., SC20) on its four traces."""
