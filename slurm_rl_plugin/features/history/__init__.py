"""Past runs of similar jobs: means by site, user and template, and a prediction."""
