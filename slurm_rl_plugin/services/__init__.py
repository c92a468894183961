"""What commands and services of a configured site share: daemon, forecasts, offers, checks.

A fault in what the site configured raises ConfigurationError, a model that cannot be used
PolicyError, a batch system that does not answer BatchSystemError.
"""
