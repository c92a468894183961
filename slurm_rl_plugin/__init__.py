"""A Slurm and PBS plugin that orders the queue by a model made offline, such as a Q-network."""

__version__ = "0.1.0"
