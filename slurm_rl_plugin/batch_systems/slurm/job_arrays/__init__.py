"""Trainings on the site's own Slurm: evaluations as tasks of job arrays."""
