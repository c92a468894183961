"""How often a switchback experiment finds what is there, and nothing where nothing is (ours)."""
