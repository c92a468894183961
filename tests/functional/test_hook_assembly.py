"""Which adapter is built and why; accounting is asked only for a model that learns from runs."""

import logging

import pytest

from slurm_rl_plugin.batch_systems.slurm import adapter as slurm_adapter
from slurm_rl_plugin.batch_systems.slurm.adapter import Slurm
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.services.configured_site import build_batch_system
from slurm_rl_plugin.services.hook import build_cycle, load_policy
from tests.unit.configuration.given_content import configuration_of


@pytest.mark.parametrize(
    ("model", "days", "asked"),
    [("default", 30.0, 30.0), ("default", 0, 0.0), ("reactive-grids", 30.0, 0.0)],
)
def test_days_of_history(tmp_path, model, days, asked):
    configuration = configuration_of(
        {
            "hook": {"state_file": str(tmp_path / "state.json"), "audit_file": ""},
            "batch_system": {"history_days": days},
        }
    )
    loaded = load_policy(model)
    assert loaded.learns_from_runs == (model == "default")
    assert build_cycle(configuration, loaded).batch_system._history_days == asked


def configured(adapter):
    return configuration_of({"batch_system": {"adapter": adapter}})


@pytest.mark.parametrize(
    ("adapter", "pyslurm", "kind", "line"),
    [
        ("auto", None, SlurmCommands, "adapter=slurm_commands because=pyslurm is not installed"),
        (
            *("auto", "25.11.2", SlurmCommands),
            "adapter=slurm_commands because=pyslurm 25.11.2 is not for Slurm 22.05.8",
        ),
        ("auto", "22.5.3", Slurm, "adapter=slurm because=pyslurm 22.5.3 is for this Slurm"),
        ("slurm", "22.5.3", Slurm, "adapter=slurm because=it is configured"),
        (
            *("slurm_commands", "22.5.3", SlurmCommands),
            "adapter=slurm_commands because=it is configured",
        ),
    ],
)
def test_adapter_and_the_line_that_says_why(monkeypatch, caplog, adapter, pyslurm, kind, line):
    monkeypatch.setattr(slurm_adapter, "installed_pyslurm", lambda: pyslurm)
    monkeypatch.setattr(slurm_adapter, "running_slurm", lambda commands: "22.05.8")
    caplog.set_level(logging.INFO)
    system = build_batch_system(configured(adapter), [])
    assert type(system) is kind
    assert line.startswith(f"adapter={system.name} ")
    assert caplog.messages[1:] == [line]  # the first says why it is no OpenPBS


def test_adapter_that_cannot_work_is_a_fault_of_the_configuration(monkeypatch):
    monkeypatch.setattr(slurm_adapter, "installed_pyslurm", lambda: None)
    with pytest.raises(ConfigurationError, match=r"pyslurm is not installed; install the pyslurm"):
        build_batch_system(configured("slurm"), [])
