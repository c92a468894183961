"""How slurmctld looks at its queue: the main scheduler, and backfill with a plan in time slots."""
