"""The value of a schedule: time utility, responsiveness, fairness, reward, summaries."""
