"""How a place in the order is given to PBS: a resource that its formula adds up."""
