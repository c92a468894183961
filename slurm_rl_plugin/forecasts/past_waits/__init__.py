"""Forecasts of a pending job's wait from past waits: features, boosted trees, a forest, weights."""
