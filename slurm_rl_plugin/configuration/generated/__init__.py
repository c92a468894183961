"""Files that are made of the definitions of keys: example, manual page, tables."""
