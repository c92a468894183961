"""`slurm-rl what-if`: a change of the cluster, tried on its own log before it is made."""
