"""Event files of the Slurm simulator of Buffalo: one `sbatch` line a job."""
