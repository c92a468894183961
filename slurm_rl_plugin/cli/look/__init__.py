"""Verbs that only look: status, queue, explain, audit, show-config."""
