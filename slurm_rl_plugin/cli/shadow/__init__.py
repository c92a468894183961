"""`slurm-rl shadow-report`: what active mode would have changed."""
