"""Offers between real sites: a service at each, and who asks all of them before a job goes."""
