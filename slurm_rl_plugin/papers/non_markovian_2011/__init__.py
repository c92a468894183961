"""Non-Markovian reinforcement learning for reactive grid scheduling (Perez et al. 2011)."""
