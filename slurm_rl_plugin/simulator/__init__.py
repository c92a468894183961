"""A compiled discrete-event simulator of one site: events, queue order, backfilling, outcome."""
