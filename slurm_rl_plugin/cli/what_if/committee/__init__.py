"""The page for the users' committee: hours waited before and after, who gains, who loses."""
