"""Policies measured on the same jobs: paired windows, held out, recorded replay."""
