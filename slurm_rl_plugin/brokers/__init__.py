"""Matchmaking: which site a job goes to, before that site's scheduler orders it."""
