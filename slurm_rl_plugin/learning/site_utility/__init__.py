"""What one more job is worth to a site, learned from its own history (2008, II.C)."""
