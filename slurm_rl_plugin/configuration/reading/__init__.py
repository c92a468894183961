"""From files, environment and flags to values: where each came from, and all faults."""
