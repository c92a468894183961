"""OpenPBS: its commands, and libpbs in a child."""
