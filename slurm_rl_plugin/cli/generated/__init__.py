"""Files that are made of the parsers: manual pages and completion."""
