"""The registry: names import no adapter, and each entry makes a working one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.port import AdapterParts, BatchSystem, BatchSystemKind, LimitKeys
from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.domain.job_class import JobClassifier

each_kind = pytest.mark.parametrize("kind", BATCH_SYSTEMS.values(), ids=BATCH_SYSTEMS)
#: What only the way in needs, or an adapter.
HEAVY = ("onnxruntime", "prometheus_client", "numba", "pyslurm", "slurm_rl_plugin.accounting")


def nowhere(folder: Path) -> dict[str, str]:
    """A host on which no batch system answers."""
    return {"PATH": str(folder), "PBS_CONF_FILE": str(folder / "none")}


def test_asking_for_names_imports_no_adapter() -> None:
    program = (
        "import sys; import slurm_rl_plugin.batch_systems.registry as r; "
        "own = [n for n in sys.modules if n.startswith('slurm_rl_plugin.batch_systems.')]; "
        "print(*own, *[n for n in sys.argv[1:] if n in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, *HEAVY, "numpy"], capture_output=True, text=True, check=True
    )
    kinds = {f"slurm_rl_plugin.batch_systems.{name}" for name in BATCH_SYSTEMS}
    known = {"slurm_rl_plugin.batch_systems.port", "slurm_rl_plugin.batch_systems.registry"}
    assert set(answer.stdout.split()) == known | kinds | {f"{each}.kind" for each in kinds}


@each_kind
def test_an_adapter_is_made_without_a_question_and_checks_and_limits(
    kind: BatchSystemKind, tmp_path: Path
) -> None:
    names: dict[str, Any] = {"qos": "bulk", "license": "slot", "reservation": "ours"}
    for mechanism in (None, *kind.limits):
        limit = LimitKeys(mechanism=mechanism, queues=("bulk",), is_known=True, **names)
        parts = AdapterParts(
            shares=None,
            classifier=JobClassifier(),
            clock=lambda: 0.0,
            environment=nowhere(tmp_path),
            limit=limit,
        )
        system = kind.build(parts)
        assert system.name in kind.adapters
        assert type(system).own_checks is not BatchSystem.own_checks
        assert type(system).limit_batch is not BatchSystem.limit_batch


@each_kind
def test_where_nothing_is_installed_nothing_is_seen_and_nobody_answers(
    kind: BatchSystemKind, tmp_path: Path
) -> None:
    assert kind.lacks(nowhere(tmp_path)).startswith("no ")
    assert not kind.answers(nowhere(tmp_path), 1.0)
