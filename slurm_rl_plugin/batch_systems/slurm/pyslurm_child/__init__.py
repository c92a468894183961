"""pyslurm in a process of its own, so that a fault of it ends that process only."""
