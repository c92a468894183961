"""Forecasts of a live queue: given, kept, scored when the jobs start, and told to those who ask."""
