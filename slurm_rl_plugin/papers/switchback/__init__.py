"""How often a switchback experiment finds a real effect, and how often a false one (ours)."""
