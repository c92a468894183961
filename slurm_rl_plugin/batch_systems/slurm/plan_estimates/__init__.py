"""TimeMin under time_min_as_soft_limit: what backfill plans a job with; no limit changes."""
