"""`slurm-rl offer` and `slurm-rl route`: between sites."""
