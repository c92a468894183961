"""The grid of 2005: many agents, each learning where its jobs start soonest."""
