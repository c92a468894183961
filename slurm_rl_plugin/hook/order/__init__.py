"""From a decision to the fewest writes that bring it about."""
