"""What past waits tell of a pending job's: features, boosted trees, and what each is worth."""
