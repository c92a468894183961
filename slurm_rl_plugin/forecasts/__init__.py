"""Forecasts of when pending jobs start: distributions with bands, and how good they have been."""
