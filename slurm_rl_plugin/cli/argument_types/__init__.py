"""What words of a command line stand for: numbers within bounds, times as Slurm writes them."""
