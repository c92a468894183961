"""`slurm-rl train`: from accounting logs to a model."""
