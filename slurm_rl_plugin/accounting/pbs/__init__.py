"""Accounting files of PBS and Torque."""
