"""Site utilities (Perez et al. 2008, section II.C): sites publish what a job is worth."""
