"""Between a policy and the queue: checks, bounds, the limit of the reserve."""
