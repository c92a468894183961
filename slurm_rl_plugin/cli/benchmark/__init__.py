"""`slurm-rl benchmark`: how fast the hook decides and the simulator runs."""
