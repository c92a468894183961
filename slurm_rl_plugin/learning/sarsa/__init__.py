"""SARSA on the papers' 11 inputs (2008, sections III and V.A)."""
