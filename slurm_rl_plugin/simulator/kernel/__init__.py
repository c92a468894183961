"""The compiled event loop: cluster, who starts now, backfilling."""
