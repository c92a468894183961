"""Two orders of the queue on the cluster itself, in turns: what each block cost, and what is sure."""
