"""Settings of slurm.conf searched for a site's own goals on the past of its log."""
