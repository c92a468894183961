"""`slurm-rl evaluate`: policies side by side on one log."""
