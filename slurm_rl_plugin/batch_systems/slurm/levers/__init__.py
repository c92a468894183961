"""Which number of a job counts in its priority, SiteFactor or nice, and how it is written."""
