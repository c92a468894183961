"""Published experiments run again: each gives claims with the published and the measured figure."""
