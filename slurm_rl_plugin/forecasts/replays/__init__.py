"""Forecasts by many replays of the queue from now on, with drawn run times and arrivals."""
