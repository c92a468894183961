"""The check of `slurm-rl check` on names in [guard_rails]: whether any job can have them."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_rl_plugin.batch_systems.port import PASS, WARN, Check, TellsNames
from slurm_rl_plugin.cli.look.queue_look import QueueLook
from slurm_rl_plugin.configuration import Configuration

#: Unknown names that the line shows.
_SHOWN = 5


def exemptions_of(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    """Whether the cluster knows who is exempt; nothing where nobody is, or nobody can tell."""
    rails, system = configuration.sections.guard_rails, look.cycle.batch_system
    exempt = {
        "account": rails.exempt_accounts,
        "partition": rails.exempt_partitions,
        "QOS": rails.exempt_qos,
    }
    if not any(exempt.values()) or not isinstance(system, TellsNames):
        return
    known = dict(zip(exempt, system.site_names(), strict=True))
    told = {what: names for what, names in exempt.items() if names and known[what] is not None}
    unknown = [
        f"{what} {name}"
        for what, names in told.items()
        for name in names
        if name not in (known[what] or ())
    ]
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        what = (
            f"there is no {', '.join(unknown[:_SHOWN])}{more} here, so no job is exempt by it: "
            "write [guard_rails] exempt_* as the batch system does"
        )
        yield Check(WARN, "exemptions", what)
    elif told:
        yield Check(PASS, "exemptions", f"{', '.join(told)}: all names are known here")
