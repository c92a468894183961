"""What stands between a policy and the queue: checks, bounds, the reserve's limit."""
