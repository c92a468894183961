"""A Slurm and PBS plugin that orders the queue with a Q-network trained on the site's own log."""

__version__ = "0.1.0"
