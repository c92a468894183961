"""Slurm 22.05 to 26.05: by its own commands, or by pyslurm in a child process."""
