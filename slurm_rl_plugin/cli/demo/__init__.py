"""`slurm-rl demo`: the whole loop on a simulated cluster."""
