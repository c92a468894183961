"""Scores inside the compiled loop: rules, networks, echo state networks."""
