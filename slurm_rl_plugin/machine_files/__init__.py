"""A site's machine from its files: slurm.conf, gres.conf and the output of sacctmgr.

Text that is not understood raises ConfigurationError, which names the file and the line.
"""
