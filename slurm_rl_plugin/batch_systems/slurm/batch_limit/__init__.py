"""A limit on batch jobs, so that processors stay free: by a QOS, or by licences."""
