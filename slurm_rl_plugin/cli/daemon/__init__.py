"""`slurm-rl run`: the daemon, and what it says of itself."""
