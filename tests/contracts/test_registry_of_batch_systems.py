"""The registry: what each entry tells by name, what it makes, and that names are cheap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.kind import AdapterParts, BatchSystemKind, LimitKeys
from slurm_rl_plugin.batch_systems.port import BatchSystem
from slurm_rl_plugin.batch_systems.registry import ADAPTERS, AUTO, BATCH_SYSTEMS, LIMITS
from slurm_rl_plugin.configuration import KEYS
from slurm_rl_plugin.configuration.sections import OFF
from slurm_rl_plugin.domain.job_class import JobClassifier

each_kind = pytest.mark.parametrize("kind", BATCH_SYSTEMS.values(), ids=BATCH_SYSTEMS)
#: What only the way in needs, or an adapter.
HEAVY = ("onnxruntime", "prometheus_client", "numba", "pyslurm", "slurm_rl_plugin.accounting")
FOLDER = Path(__file__).parents[2] / "slurm_rl_plugin" / "batch_systems"


def limit_of(mechanism: str | None) -> LimitKeys:
    """A site that names something for each mechanism."""
    return LimitKeys(
        mechanism=mechanism,
        qos="bulk",
        license="slot",
        reservation="ours",
        queues=("bulk",),
        is_known=True,
    )


def parts_of(kind: BatchSystemKind, folder: Path, mechanism: str | None) -> AdapterParts:
    """A host on which no batch system answers."""
    return AdapterParts(
        adapter=AUTO,
        shares=None,
        classifier=JobClassifier(),
        clock=lambda: 0.0,
        timeout=1.0,
        environment={"PATH": str(folder), "PBS_CONF_FILE": str(folder / "none")},
        on_call=lambda call, seconds: None,
        history_days=0.0,
        host="head",
        state_file=folder / "state",
        limits_file=folder / "state.limits",
        limit=limit_of(mechanism),
    )


def test_each_folder_of_an_adapter_is_in_the_registry() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/kind.py")}
    assert (
        folders == set(BATCH_SYSTEMS) == {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    )


def test_names_are_told_once_and_may_be_configured() -> None:
    assert all(kind.name == name for name, kind in BATCH_SYSTEMS.items())
    assert len(ADAPTERS) == sum(len(kind.adapters) for kind in BATCH_SYSTEMS.values())
    assert len(LIMITS) == sum(len(kind.limits) for kind in BATCH_SYSTEMS.values())
    assert KEYS["batch_system"]["adapter"].choices == (AUTO, *ADAPTERS)
    assert KEYS["reserve"]["mechanism"].choices == (OFF, *LIMITS)
    assert {key for keys in LIMITS.values() for key in keys} <= set(KEYS["reserve"])


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
    known = {"slurm_rl_plugin.batch_systems.kind", "slurm_rl_plugin.batch_systems.registry"}
    assert set(answer.stdout.split()) == known | kinds | {f"{each}.kind" for each in kinds}


@each_kind
def test_an_adapter_is_made_without_a_question_and_checks_itself(
    kind: BatchSystemKind, tmp_path: Path
) -> None:
    system = kind.build(parts_of(kind, tmp_path, None))
    assert system.name in kind.adapters
    assert type(system).own_checks is not BatchSystem.own_checks


@each_kind
def test_who_names_a_mechanism_can_limit_batch_jobs(kind: BatchSystemKind, tmp_path: Path) -> None:
    for mechanism in kind.limits:
        system = kind.build(parts_of(kind, tmp_path, mechanism))
        assert type(system).limit_batch is not BatchSystem.limit_batch


@each_kind
def test_where_nothing_is_installed_nothing_is_seen_and_nobody_answers(
    kind: BatchSystemKind, tmp_path: Path
) -> None:
    environment = {"PATH": str(tmp_path), "PBS_CONF_FILE": str(tmp_path / "none")}
    found = kind.presence(environment)
    assert not found.is_here
    assert found.lacks.startswith("no ")
    assert not kind.answers(environment, 1.0)


def test_the_first_can_do_what_verbs_take_without_a_choice() -> None:
    first = next(iter(BATCH_SYSTEMS.values()))
    assert first.submission is not None
    assert first.submission({}, 1.0).program == "sbatch"
    assert first.accounting is not None
    assert first.offers is not None
