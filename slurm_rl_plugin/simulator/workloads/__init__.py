"""Workloads: from accounting logs, resampled, or generated."""
