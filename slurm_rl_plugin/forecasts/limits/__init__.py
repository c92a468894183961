"""Time limits against run times: what accounts ask for, and what to ask for next time."""
