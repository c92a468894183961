"""What a job asks for before it is submitted, when it would start, and submitting it."""
