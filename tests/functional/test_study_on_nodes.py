"""`evaluate` and `shadow-report` with --cluster: one study, on nodes of a file or of this host."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.functional.typed import Typed
from tests.unit.accounting.published_samples import NODES, as_csv, pods

Told = Callable[..., dict[str, Any]]
ANSWERS = Path(__file__).parents[1] / "assets" / "slurm" / "24.11"
#: The two commands of Slurm, with the answers that one gave.
COMMAND = """#!/bin/sh
case "$*" in
    *config*) cat "{answers}/machine-config.txt" ;;
    *nodes*) cat "{answers}/machine-nodes.txt" ;;
    *partitions*) cat "{answers}/machine-partitions.txt" ;;
    *qos*) cat "{answers}/machine-qos.txt" ;;
    *associations*) cat "{answers}/machine-associations.txt" ;;
    *users*) cat "{answers}/machine-users.txt" ;;
    *) exit 1 ;;
esac
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with pods, the nodes that they ran on, and a configuration."""
    monkeypatch.chdir(tmp_path)
    as_csv(pods(120), tmp_path / "pods.csv")
    tmp_path.joinpath("nodes.csv").write_text(NODES)
    configure(tmp_path)
    return tmp_path


def configure(folder: Path, model: str = "sjf", text: str = "") -> None:
    folder.joinpath("site.toml").write_text(
        f'[policy]\nmodel = "{model}"\n[hook]\naudit_file = ""\n{text}'
    )


@pytest.fixture
def told(site: Path, typed: Typed) -> Told:
    del site

    def tell(verb: str, *words: str) -> dict[str, Any]:
        status, out, err = typed(verb, "pods.csv", "--config", "site.toml", *words, "--json")
        assert status == 0, err
        document: dict[str, Any] = json.loads(out)
        return document

    return tell


ON_NODES = ("--cluster", "nodes.csv")


def test_both_verbs_tell_the_same_on_nodes(told: Told) -> None:
    evaluated, reported = (told(verb, *ON_NODES) for verb in ("evaluate", "shadow-report"))
    study = reported["study"]
    assert evaluated["study"] == study
    assert reported["prediction"].pop("warning") is None
    assert evaluated["prediction"] == reported["prediction"]
    assert study["settings"]["backfilling"] == "slurm"
    machine, policies = study["on_nodes"]["machine"], study["on_nodes"]["policies"]
    assert machine["resources"] == {"cpus": 224.0, "memory": 1179648.0, "gpus": 10.0}
    assert (machine["nodes"], machine["partitions"]) == (4, ["openb"])
    assert list(policies) == list(study["policies"])
    for name, entry in policies.items():
        assert set(entry["resources"]) == {"cpus", "memory", "gpus"}
        partition, figures = entry["partitions"]["openb"], study["policies"][name]
        assert partition["jobs"] == study["counted_jobs"]
        assert partition["mean_wait"] == pytest.approx(figures["mean_wait"])
        assert partition["max_wait"] == figures["longest_wait"]
        assert evaluated["policies"][name]["resources"] == entry["resources"]
        if name != "native":  # what was recorded had another machine
            assert all(0 < each["utilization"] <= 1 for each in entry["resources"].values())


def test_jobs_wait_for_nodes_as_they_do_not_for_processors(told: Told) -> None:
    """Ten GPUs are far fewer than pods ask for; 224 processors are more than enough."""
    on_nodes = told("shadow-report", *ON_NODES)["study"]["policies"]
    pooled = told("shadow-report", "--processors", "224")["study"]
    assert "on_nodes" not in pooled
    assert pooled["settings"]["backfilling"] == "easy"
    for name in ("native order", "fifo", "sjf"):
        assert on_nodes[name]["mean_wait"] > 100 * pooled["policies"][name]["mean_wait"]


@pytest.mark.usefixtures("site")
def test_people_read_the_same_tables(typed: Typed) -> None:
    status, out, err = typed("shadow-report", "pods.csv", "--config", "site.toml", *ON_NODES)
    assert status == 0, err
    assert "processors of 4 nodes as slurmctld looks at its queue" in out
    assert "On 4 nodes; part of each resource in use" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["RESOURCE", "THERE", "ASKED", "native", "native", "order"] in [
        line[:6] for line in lines
    ]
    assert {"cpus", "memory", "gpus", "openb"} <= {line[0] for line in lines if line}
    assert "Not simulated: nodes.csv: jobs get whole CPUs" in out
    assert "so many equal processors" not in out


def test_a_reserve_is_a_limit_on_batch_jobs_on_nodes(told: Told, site: Path) -> None:
    text = '[reserve]\nmechanism = "qos"\nqos = "batch"\nmost_processors = 2\n'
    configure(site, "reserve:2", text)
    study = told("shadow-report", *ON_NODES)["study"]
    assert study["model"] == "reserve:2"
    assert study["settings"]["reserve_most"] == 2.0
    assert {"reserve:2", "interactive-first"} <= {*study["policies"]}
    assert not any("are not simulated for it" in each for each in study["notices"])


def test_easy_backfilling_on_nodes_may_be_asked_for(told: Told) -> None:
    study = told("evaluate", *ON_NODES, "--backfill", "easy")["study"]
    assert study["settings"]["backfilling"] == "easy"
    assert study["on_nodes"]["policies"]["fifo"]["partitions"]["openb"]["mean_wait"] > 0


def test_the_nodes_of_this_host(told: Told, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scontrol", "sacctmgr", "squeue", "sinfo"):
        command = site / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(COMMAND.format(answers=ANSWERS))
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{site / 'bin'}:/usr/bin:/bin")
    plain = pods(300).filter(pl.col("num_gpu") == 0).with_columns(pl.lit("").alias("gpu_spec"))
    small = plain.with_columns(pl.lit(2000).alias("cpu_milli"), pl.lit(4000).alias("memory_mib"))
    as_csv(small, site / "pods.csv")
    found = told("shadow-report", "--cluster", "live")["study"]["on_nodes"]
    assert found["machine"]["name"] == "trial"
    assert found["machine"]["nodes"] == 5
    assert found["machine"]["resources"]["gres/gpu:a100"] == 6.0
    assert set(found["policies"]["fifo"]["partitions"]) == {"batch"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cluster", "live"), "--cluster live: no Slurm is here .*give the path of a slurm.conf"),
        ((*ON_NODES, "--processors", "9"), "--cluster tells processors, partitions and nodes"),
        (("--cluster", "missing.conf"), "missing.conf"),
    ],
)
@pytest.mark.usefixtures("site")
def test_a_machine_that_cannot_be_had_is_one_sentence(
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    status, _, err = typed("shadow-report", "pods.csv", "--config", "site.toml", *words)
    assert status == 2
    assert re.search(said, err), err
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("site")
def test_one_log_on_nodes_without_a_configuration(typed: Typed) -> None:
    """Each resource and each partition of each policy stand in the document of `evaluate`."""
    status, out, err = typed(
        *("evaluate", "pods.csv", *ON_NODES, "--policy", "fifo", "--policy", "native", "--json")
    )
    assert status == 0, err
    document = json.loads(out)
    assert document["log"]["noticed"]["a part of a GPU counted as a whole one"] > 0
    assert document["log"]["backfill"] == "slurm"
    assert set(document["log"]["machine"]["resources"]) == {"cpus", "memory", "gpus"}
    for entry in document["policies"].values():
        for figures in entry["resources"].values():
            assert set(figures) == {"capacity", "utilization", "load", "jobs"}
        assert set(entry["partitions"]["openb"]) == {
            *("jobs", "mean_wait", "median_wait", "p95_wait", "max_wait", "within_120s"),
            "mean_bounded_slowdown",
        }
        assert entry["partitions"]["openb"]["jobs"] == entry["jobs"]
