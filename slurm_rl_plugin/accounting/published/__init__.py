"""Published data sets of jobs: F-DATA (Fugaku), PM100 (Marconi100) and openb (Alibaba)."""
