"""A switchback experiment as the daemon carries it out: whose turn it is, and what was in force."""
