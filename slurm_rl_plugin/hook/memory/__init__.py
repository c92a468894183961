"""What outlives the daemon: jobs that carry a factor, the policy's memory, the disable file."""
