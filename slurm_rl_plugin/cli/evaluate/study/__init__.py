"""What an order would do to a site's users: the one study of `evaluate` and `shadow-report`."""
