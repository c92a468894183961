"""`slurm-rl run` whose policy is shown the log's own time.

python -m tests.bench.start_hours.stretched_hook run --config FILE
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from slurm_rl_plugin.cli import run
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.services.hook import LoadedPolicy, load_policy_or_fall_back
from tests.bench.start_hours.stretched import stretched


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchedPolicy:
    """Another policy that sees each look stretched about the epoch."""

    policy: Policy

    @property
    def name(self) -> str:
        """The other's."""
        return self.policy.name

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """What the other decides of the stretched look."""
        return self.policy.decide(stretched(snapshot, 0.0), memory)


def _loaded(model: str) -> LoadedPolicy:
    loaded = load_policy_or_fall_back(model)
    return replace(loaded, policy=StretchedPolicy(policy=loaded.policy))


if __name__ == "__main__":
    run.load_policy_or_fall_back = _loaded  # type: ignore[attr-defined] # its own import
    sys.exit(main(sys.argv[1:]))
