"""The audit log: written by the daemon, read back, and summed up over weeks."""
