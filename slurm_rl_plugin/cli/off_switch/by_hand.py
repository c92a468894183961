"""What takes factors back where `slurm-rl release` itself cannot: Slurm's own commands."""

from __future__ import annotations

TAKE_BACK_BY_HAND = (
    "squeue -h -t PD,R,S -o %A | sort -u | sed 's/.*/update jobid=& sitefactor=0/' | scontrol"
)
