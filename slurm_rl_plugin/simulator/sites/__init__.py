"""Several simulated sites, and what one more job changes for one."""
