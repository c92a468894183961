"""The way out: release, disable, enable, pause; they need no library of the way in."""
