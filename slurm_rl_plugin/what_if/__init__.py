"""What a change of a cluster would do to its users, before it is made; and which change to make."""
