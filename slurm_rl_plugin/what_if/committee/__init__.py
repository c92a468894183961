"""What users waited before and after, group by group: who gains, and who loses."""
