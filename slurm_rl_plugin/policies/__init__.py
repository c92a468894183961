"""Ways of ordering the queue: the simple rules and the learned network."""
