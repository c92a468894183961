"""Whether the model in service is still worth what it was when it came."""
