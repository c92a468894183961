"""What qstat, pbsnodes and pbsfs answer, read tolerantly."""
