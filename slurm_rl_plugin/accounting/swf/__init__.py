"""The Standard Workload Format of the Parallel Workloads Archive."""
