"""LOG arguments of every verb, and `slurm-rl convert`."""
