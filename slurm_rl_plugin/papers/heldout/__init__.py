"""Whether a learned order beats the best simple rule on what it has never seen."""
