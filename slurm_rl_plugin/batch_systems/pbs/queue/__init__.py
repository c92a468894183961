"""PBS's jobs as the columns of a snapshot, and what changed since the last one."""
