"""What a schedule is worth: time utility, responsiveness, fairness, reward, summaries."""
