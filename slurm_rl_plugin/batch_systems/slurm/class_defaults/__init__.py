"""A table from which job_submit.lua gives new jobs the place of their class at once."""
