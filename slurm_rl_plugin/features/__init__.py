"""What a policy knows of a queue and of a job, and the run-time estimates it builds on."""
