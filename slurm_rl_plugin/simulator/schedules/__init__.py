"""A whole workload under one order of the queue: when every job started."""
