"""The process around the cycles: its lock, its pace, its signals."""
