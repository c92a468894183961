"""Dumps of Slurm's `sacct -P`."""
