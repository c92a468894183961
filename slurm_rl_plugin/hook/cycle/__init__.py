"""One cycle, from the snapshot to the report, and the pace of cycles."""
