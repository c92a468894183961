"""A site's machine as its files describe it: slurm.conf, gres.conf and what sacctmgr prints."""
