"""Plan estimates by soft_walltime: which jobs may have one, and what PBS must be set to."""
