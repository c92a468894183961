"""An experiment: whose turn it is, what was in force, and what its files say."""
