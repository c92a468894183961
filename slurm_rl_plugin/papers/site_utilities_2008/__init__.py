"""Site utilities (Perez et al. 2008, section II.C): sites publish the utility of one more job."""
