"""Files that are made from the definitions of keys: example file, manual page, tables."""
