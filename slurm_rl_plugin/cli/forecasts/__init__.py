"""`slurm-rl forecast` and `slurm-rl start`: when jobs start."""
