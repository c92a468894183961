"""Logs of any size in one parquet file, in memory that does not grow with them."""
