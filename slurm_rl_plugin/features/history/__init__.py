"""What past runs tell of a job: means by site, user and template, and a prediction."""
