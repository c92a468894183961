"""Serves metrics, forecasts and offers to unknown clients, on cheroot (ADR 43).

What cannot be listened on, and a file of TLS or a token that cannot be used, raise
ConfigurationError; a page refuses a request by RequestRefused.
"""
