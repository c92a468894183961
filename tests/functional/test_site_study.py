"""`evaluate` and `shadow-report` of a site's log, on processors and on nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.batch_systems.port import PASS, WARN
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.services.checks import reward_of
from slurm_rl_plugin.services.hook import load_policy
from slurm_rl_plugin.simulator.workloads.generators import egee_log, generated_log
from tests.functional.typed import Typed, asset
from tests.unit.accounting.published_samples import NODES, as_csv, pods

GROUPS = {"class", "width", "limit", "account"}


def recorded(folder: Path, jobs: JobLog, typed: Typed) -> Path:
    """These jobs as they were started in order of submission on five processors."""
    write_swf(folder / "bare.swf", jobs, comments=["MaxProcs: 5"])
    typed.out("evaluate", folder / "bare.swf", "--policy", "fifo", "--export", folder)
    return folder / "fifo.swf"


@pytest.fixture
def log(tmp_path: Path, typed: Typed) -> Path:
    """Jobs of a loaded site."""
    jobs = egee_log(np.random.default_rng(1), jobs=800, processors=5, load=0.85)
    return recorded(tmp_path, jobs, typed)


Configure = Callable[..., Path]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def write(text: str = "", model: str = "sjf") -> Path:
        path = tmp_path / "site.toml"
        path.write_text(f'[policy]\nmodel = "{model}"\n[hook]\naudit_file = ""\n{text}')
        return path

    return write


IN_FORCE = (
    "influence_hours = 3\n[guard_rails]\nstarvation_hours = 40\n"
    '[[job_class]]\nclass = "interactive"\ntime_limit_at_most = 3600\n'
)
RESERVE = '[reserve]\nmechanism = "qos"\nqos = "batch"\nmost_processors = 2\n'


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("default", IN_FORCE),
        ("sjf", IN_FORCE),
        ("reserve:2", RESERVE),
        ("multifactor", "influence_hours = 1\n"),
    ],
)
def test_both_verbs_tell_the_same(
    typed: Typed,
    configure: Configure,
    log: Path,
    model: str,
    text: str,
) -> None:
    path = configure(text, model)
    evaluated = typed.json("evaluate", log, "--config", path)
    reported = typed.json("shadow-report", log, "--config", path)
    assert evaluated["study"] == reported["study"]
    warning = reported["prediction"].pop("warning")
    assert (warning, evaluated["prediction"]) == (None, reported["prediction"])
    study = evaluated["study"]
    assert set(study["groups"]) == GROUPS
    assert {"native", "native order", "multifactor", "fifo", study["model"]} <= set(
        study["policies"]
    )
    for name, entry in evaluated["policies"].items():
        figures = study["policies"][name]
        assert entry["jobs"] == study["counted_jobs"]
        assert entry["mean_wait"] == pytest.approx(figures["mean_wait"])
        assert entry["max_wait"] == figures["longest_wait"]
        assert entry["mean_bounded_slowdown"] == pytest.approx(figures["bounded_slowdown"])


def test_bounds_are_in_force_for_the_configured_policy_alone(
    typed: Typed, configure: Configure, log: Path
) -> None:
    free = typed.json("evaluate", log, "--config", configure("influence_hours = 0\n"))["study"]
    bound = typed.json("evaluate", log, "--config", configure("influence_hours = 0.1\n"))["study"]
    assert free["settings"]["influence_hours"] is None
    assert bound["settings"]["influence_hours"] == 0.1
    slowdown = [each["policies"]["sjf"]["bounded_slowdown"] for each in (free, bound)]
    assert slowdown[0] < slowdown[1]
    for name in ("native order", "multifactor", "fifo"):
        assert free["policies"][name] == bound["policies"][name]


def test_what_people_read(typed: Typed, configure: Configure, log: Path) -> None:
    path = configure(IN_FORCE)
    out = typed.out("evaluate", log, "--config", path, "--policy", "wfp3")
    assert "In force for sjf: influence of 3 h of age; scores up to 30 s old" in out
    assert "starvation bound 40 h; no reserve." in out
    for group in ("class: batch", "width: one processor", "limit: ", "account: "):
        assert group in out
    assert "Who loses under sjf, compared with native order:\n" in out
    assert "Who loses under wfp3, compared with native order" in out
    assert (
        "/MULTI: the ratio to first come, first served and to multifactor, both with the same"
        in out
    )
    reported = typed.out("shadow-report", log, "--config", path)
    assert reported.count("Mean and longest wait by width") == 1
    out = typed.out("evaluate", log, "--config", configure("influence_hours = 0\n", "fifo"))
    assert "Who loses under fifo as written, compared with native order: no group;" in out


def test_pictures_schedules_and_users_of_the_study(
    typed: Typed,
    configure: Configure,
    log: Path,
    tmp_path: Path,
) -> None:
    asked = ("--plot", tmp_path / "p", "--export", tmp_path / "e", "--users")
    found = typed.json("evaluate", log, "--config", configure(), *asked)
    assert (tmp_path / "p" / "groups.png").read_bytes()[:4] == b"\x89PNG"
    assert len(found["exports"]) == 2 * len(found["policies"])
    assert "--config site.toml" in (tmp_path / "e" / "sjf.swf").read_text()
    assert found["policies"]["sjf"]["users"]


def test_an_audit_log_of_other_days_is_told(
    typed: Typed, configure: Configure, log: Path, tmp_path: Path
) -> None:
    line = {"event": "cycle", "time": 1795300000.5, "mode": "shadow", "policy": "m", "model": ""}
    line |= {"reason": "policy", "jobs": 2, "order": [7, 8]}
    (tmp_path / "audit.jsonl").write_text(json.dumps(line) + "\n")
    path = configure()
    path.write_text(path.read_text().replace('""', f'"{tmp_path}/audit.jsonl"'))
    out = typed.out("shadow-report", log, "--config", path)
    assert "the two parts have nothing in common" in out


def test_logs_that_cannot_be_replayed_are_one_sentence(
    typed: Typed, configure: Configure, tmp_path: Path
) -> None:
    path = configure()
    assert "no recorded start" in typed.refused("evaluate", "mmn:jobs=100", "--config", path)
    write_swf(tmp_path / "few.swf", generated_log("mmn:jobs=8"), comments=["MaxProcs: 5"])
    few = typed.refused("evaluate", tmp_path / "few.swf", "--config", path)
    assert "too few to replay" in few


def test_shares_and_a_machine_that_do_not_fit_the_log_are_told(
    typed: Typed, configure: Configure, log: Path
) -> None:
    path = configure()
    assert typed.json("evaluate", log, "--config", path)["study"]["notices"] == []
    small = typed.json("evaluate", log, "--config", path, "--processors", 2)["study"]["notices"]
    assert len(small) == 1
    assert "times the 2 processors of this machine in use, on the average" in small[0]
    path = configure("[shares]\nphysics = 1.0\n")
    notices = typed.json("evaluate", log, "--config", path)["study"]["notices"]
    assert notices[0] == "Accounts with a share and without a job in the log: physics."
    assert notices[1].startswith("800 jobs are of accounts without a share:")


THREE_CLASSES = asset("three_classes.toml")


def test_each_class_of_a_site_has_its_own_utility(
    tmp_path: Path,
    configure: Configure,
    typed: Typed,
) -> None:
    """Those who start within a minute are all of SDJ that have any, and U is the mean over jobs."""
    jobs = egee_log(np.random.default_rng(2), jobs=400, processors=5, load=0.85)
    jobs = replace(jobs, time_limit=np.ceil(1.5 * jobs.run_time))
    log, site = recorded(tmp_path, jobs, typed), configure(THREE_CLASSES)
    found = typed.json("evaluate", log, "--config", site)["policies"]
    for policy in found.values():
        each = policy["utility_classes"]
        assert set(each) == {"SDJ", "nightly", "batch"}
        assert sum(one["jobs"] for one in each.values()) == policy["jobs"]
        assert each["SDJ"]["jobs"] == policy["classes"]["interactive"]["jobs"]
        assert each["SDJ"]["time_utility"] <= each["SDJ"]["within_120s"]
        mean = sum(one["jobs"] * one["time_utility"] for one in each.values()) / policy["jobs"]
        assert policy["time_utility"] == pytest.approx(mean)
    out = typed.out("evaluate", log, "--config", site)
    [header] = [line for line in out.splitlines() if "U(SDJ)" in line]
    assert header.split() == ["POLICY", "U(batch)", "U(SDJ)", "U(nightly)"]
    sjf = next(line for line in out[out.index(header) :].splitlines() if line.startswith("sjf "))
    assert float(sjf.split()[2]) == pytest.approx(
        found["sjf"]["utility_classes"]["SDJ"]["time_utility"], abs=5e-4
    )


def test_a_model_is_trained_for_the_sites_classes_and_says_so(
    tmp_path: Path, configure: Configure, typed: Typed
) -> None:
    """The loads are the same, so figures that differ do so by the classes alone."""
    only_utility = "[reward]\ntime_utility = 1\nresponsiveness = 0\nfairness = 0\n"
    only_utility += "tail = 0\nslowdown = 0\ngroups = 0\n"
    table = {}
    for name, text in (("paper", ""), ("own", THREE_CLASSES)):
        site = configure(only_utility + text)
        model = tmp_path / f"{name}.onnx"
        words = ("mmn:jobs=600,processors=5", "--config", site, "--steps", 1, "--runs", 1)
        typed.out("train", *words, "-o", model)
        manifest = json.loads(model.with_suffix(".json").read_text())
        table[name] = manifest["validation"]
        assert set(manifest.get("utility_classes", ())) == (
            {"SDJ", "nightly", "batch"} if name == "own" else set()
        )
    assert table["own"][0]["policy"] == table["paper"][0]["policy"]
    assert table["own"][0]["objective"] != table["paper"][0]["objective"]
    for name, status in (("own", PASS), ("paper", WARN)):
        site = configure(only_utility + THREE_CLASSES, model=str(tmp_path / f"{name}.onnx"))
        configuration = read_configuration(site)
        loaded = load_policy(configuration.sections.policy.model)
        assert reward_of(configuration, loaded)[0] == status


Told = Callable[..., dict[str, Any]]
ANSWERS = Path(__file__).parents[1] / "assets" / "slurm" / "24.11"


@pytest.fixture
def site(tmp_path: Path, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with pods, the nodes that they ran on, and a configuration."""
    monkeypatch.chdir(tmp_path)
    as_csv(pods(120), tmp_path / "pods.csv")
    tmp_path.joinpath("nodes.csv").write_text(NODES)
    configure()
    return tmp_path


@pytest.fixture
def told(site: Path, typed: Typed) -> Told:
    del site

    def tell(verb: str, *words: str) -> dict[str, Any]:
        document: dict[str, Any] = typed.json(verb, "pods.csv", "--config", "site.toml", *words)
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
    easy = told("evaluate", *ON_NODES, "--backfill", "easy")["study"]
    assert easy["settings"]["backfilling"] == "easy"
    assert easy["on_nodes"]["policies"]["fifo"]["partitions"]["openb"]["mean_wait"] > 0


@pytest.mark.usefixtures("site")
def test_people_read_the_same_tables(typed: Typed) -> None:
    out = typed.out("shadow-report", "pods.csv", "--config", "site.toml", *ON_NODES)
    assert "processors of 4 nodes as slurmctld schedules" in out
    assert "On 4 nodes; part of each resource in use" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["RESOURCE", "CAPACITY", "REQUESTED", "native", "native", "order"] in [
        line[:6] for line in lines
    ]
    assert {"cpus", "memory", "gpus", "openb"} <= {line[0] for line in lines if line}
    assert "Not simulated: nodes.csv: jobs get whole CPUs" in out
    assert "pool of equal processors" not in out


def test_a_reserve_is_a_limit_on_batch_jobs_on_nodes(told: Told, configure: Configure) -> None:
    configure(RESERVE, "reserve:2")
    study = told("shadow-report", *ON_NODES)["study"]
    assert study["model"] == "reserve:2"
    assert study["settings"]["reserve_most"] == 2.0
    assert {"reserve:2", "interactive-first"} <= {*study["policies"]}
    assert not any("are not simulated for it" in each for each in study["notices"])


def test_the_nodes_of_this_host(told: Told, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scontrol", "sacctmgr", "squeue", "sinfo"):
        command = site / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(asset("slurm_answers.sh").format(answers=ANSWERS))
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
        ((*ON_NODES, "--processors", "9"), "--cluster already gives processors"),
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
    assert (status, err.count("\n")) == (2, 1)
    assert re.search(said, err), err


@pytest.mark.usefixtures("site")
def test_one_log_on_nodes_without_a_configuration(typed: Typed) -> None:
    """Each resource and each partition of each policy stand in the document of `evaluate`."""
    policies = ("--policy", "fifo", "--policy", "native")
    document = typed.json("evaluate", "pods.csv", *ON_NODES, *policies)
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
