"""Prometheus metrics made from cycle reports, and the HTTP endpoint that serves them."""
