"""The number of a job that Slurm heeds: SiteFactor, or nice, and how it is written."""
