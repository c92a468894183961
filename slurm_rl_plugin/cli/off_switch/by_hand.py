"""What takes factors back where `slurm-rl release` itself cannot: Slurm's own commands."""

from __future__ import annotations

#: Suspended and stopped jobs too: they may be requeued. The flags of waiting ones are no PD.
TAKE_BACK_BY_HAND = (
    "squeue -h -t PD,R,S,RD,RH,SE,ST -o %A | sort -u"
    " | sed 's/.*/update jobid=& sitefactor=0/' | scontrol"
)
