"""Files that are made from the parsers: manual pages and completion."""
