"""The market of 2002: requests with utility functions, offers from free intervals, guarantees."""
