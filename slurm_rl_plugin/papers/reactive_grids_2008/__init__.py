"""Utility-based reinforcement learning for reactive grids (Perez et al. 2008)."""
