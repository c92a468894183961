"""The scheduling hook: observe, decide, guard, order changes, apply, report."""
