"""Serves metrics, forecasts and offers to clients nobody knows, on cheroot (ADR 43)."""
