"""Two orders of a queue in turns on the cluster itself: what each block cost, and what is sure."""
