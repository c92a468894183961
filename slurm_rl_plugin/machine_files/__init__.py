"""A site's machine as its files describe it: slurm.conf, gres.conf and what sacctmgr prints.

What is not understood raises ConfigurationError, which names the file and the line.
"""
