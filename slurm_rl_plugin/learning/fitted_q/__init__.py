"""Fitted Q iteration, feed-forward or with an echo state network (2011, Algorithm 1)."""
