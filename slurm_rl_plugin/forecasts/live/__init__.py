"""Forecasts of a live queue: made, kept, scored when the jobs start, and served to clients."""
