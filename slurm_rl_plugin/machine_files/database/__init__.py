"""What Slurm's accounting database says of a machine: limits, shares, who belongs where."""
