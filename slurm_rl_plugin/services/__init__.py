"""What commands and services of a configured site share: daemon, forecasts, offers, checks."""
