"""The kit of every study: claims with verdicts, paired trials, stored results, figures."""
