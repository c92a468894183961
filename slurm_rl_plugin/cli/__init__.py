"""The `slurm-rl` command: a folder for what its verbs do, a file for each verb."""
