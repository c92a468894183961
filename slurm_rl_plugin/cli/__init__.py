"""The `slurm-rl` command: one file a verb."""
