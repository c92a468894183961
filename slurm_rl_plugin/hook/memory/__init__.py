"""What outlives the daemon: who carries a factor of ours, the policy's memory, the disable file."""
