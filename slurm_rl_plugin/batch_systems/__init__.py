"""The port to a batch system, and what is behind it: Slurm, OpenPBS, a simulated cluster."""
