"""What Slurm's commands print and take: spans of time, sizes, resources, options of sbatch."""
