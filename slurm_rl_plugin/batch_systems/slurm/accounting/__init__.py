"""What sacct remembers: past runs of the site, and whole logs for training."""
