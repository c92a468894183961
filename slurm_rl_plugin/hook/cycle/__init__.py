"""One cycle from snapshot to report, and why a job stands where it does."""
