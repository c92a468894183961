"""Readers of accounting logs, a folder for each format."""
