"""Resource allocation in the grid by learning agents (Galstyan, Czajkowski, Lerman 2005)."""
