"""What squeue, sinfo, sprio, sshare, sdiag and scontrol answer: one reader for each."""
