"""The grid of 2005: many agents, each of which learns where its jobs are served soonest."""
