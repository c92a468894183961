"""Bands that hold what they say: widened or narrowed by what came true, day after day."""
