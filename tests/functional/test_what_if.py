"""`slurm-rl what-if`: changes tried on a small site, and the examples of the documents."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.cli import what_if
from slurm_rl_plugin.learning import side_by_side
from slurm_rl_plugin.learning.evaluation import paired
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.onnx_file import export_network, import_model
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.what_if import replay
from tests.architecture.markdown_documents import TOP, all_commands, code_blocks
from tests.functional.small_site import write_small_site
from tests.functional.typed import Typed, rows_of

MODEL = Path(__file__).parents[2] / "policy_models" / "default.onnx"
#: The only node for some of the jobs.
GONE = "node g1 State=DOWN"
_AT_THE_SITE = ("week.events", "--cluster", "slurm.conf")


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """Runs `what-if` in a folder with a small site: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    write_small_site(tmp_path)

    return Typed(capsys, "what-if")


def document_of(typed: Typed, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = typed.json(*_AT_THE_SITE, *words)
    return found


FEWER, LIMITED = "node n[2-3] State=DOWN", "partition all MaxTime=0:30:00"
#: Changes that are tried in one run.
CHANGES = (
    *(FEWER, LIMITED, GONE, "FancyKey=1", "hook sjf", "hook sjf; PriorityWeightAge=5"),
    *("hook default", "hook default; goal short_jobs=0; goal longest_wait=4"),
    *("reserve gres/gpu=1", "reserve cpu=8; reserve gres/gpu=1", "reserve cpu=8,gres/gpu=1"),
)


def test_each_change_does_what_it_says(typed: Typed) -> None:
    found = document_of(typed, *(word for change in CHANGES for word in ("--change", change)))
    variants = found["variants"]
    figures = {name: each["figures"] for name, each in variants.items()}
    wait = figures[FEWER]["mean_wait"]
    assert wait["after"] > wait["before"]
    assert wait["difference"] == pytest.approx(wait["after"] - wait["before"])
    assert wait["verdict"] == "worse"
    assert wait["ci95"][0] > 0
    assert wait["ratio_ci95"][0] <= wait["ratio"] <= wait["ratio_ci95"][1]
    assert variants[FEWER]["resources"]["cpus"]["capacity"] == [32.0, 16.0]
    groups = variants[FEWER]["groups"]
    assert set(groups) == {"class", "width", "limit", "account", "resource"}
    counted = sum(each["jobs"] for each in groups["resource"].values())
    assert counted == variants[FEWER]["counted_jobs"]

    said = {name: each["sentences"] for name, each in variants.items()}
    assert any("not known here" in sentence for sentence in said["FancyKey=1"])
    nothing = "nothing that is simulated differs from the cluster as it is."
    assert nothing in said["FancyKey=1"]
    assert {each["verdict"] for each in figures["FancyKey=1"].values()} == {"no difference"}
    (sentence,) = said[LIMITED]
    assert sentence.startswith("partition all now allows 30 minutes:")
    assert any("jobs that run now could not: no node" in each for each in said[GONE])

    slowdown = {name: each["bounded_slowdown"] for name, each in figures.items()}
    assert slowdown["hook sjf"]["after"] < slowdown["hook sjf"]["before"]
    of_age = figures["hook sjf; PriorityWeightAge=5"]  # which is the site's order's
    assert of_age["mean_wait"]["after"] == figures["hook sjf"]["mean_wait"]["after"]
    trained, patient = (slowdown[change]["after"] for change in CHANGES[6:8])
    assert patient > trained
    reserve, parts, whole = (figures[change] for change in CHANGES[8:])
    assert reserve["mean_wait"]["after"] != reserve["mean_wait"]["before"]
    assert parts == whole


def test_a_change_that_leaves_no_node_is_named(typed: Typed) -> None:
    change = "node n[1-3],g1 State=DOWN"
    errors = typed.refused(*_AT_THE_SITE, "--change", change)
    assert f"--change '{change}': no node is in service: name at least one" in errors
    assert "slurm.conf" not in errors


def test_a_variant_changes_nothing_in_what_is_told_of_another(typed: Typed) -> None:
    alone = document_of(typed, "--change", "PriorityWeightAge=0")
    beside = document_of(typed, "--change", "PriorityWeightAge=0", "--change", GONE)
    assert beside["variants"]["PriorityWeightAge=0"] == alone["variants"]["PriorityWeightAge=0"]
    counted = {name: each["counted_jobs"] for name, each in beside["variants"].items()}
    assert counted[GONE] < counted["PriorityWeightAge=0"]


def test_a_log_that_records_starts_shows_how_well_the_cluster_is_known(
    typed: Typed, tmp_path: Path
) -> None:
    """Starts of the simulator itself are known; the same waited twice as long are not."""
    for factor, known in ((1.0, True), (2.5, False)):
        write_log(tmp_path / "log.swf", factor)
        found = typed.json("log.swf", "--change", "PriorityWeightAge=0")
        assert found["known"]["is_known"] is known
        variant = found["variants"]["PriorityWeightAge=0"]
        misdelivered = variant["figures"]["misdelivered"]
        assert variant["service"]["fortnight"] == [misdelivered["before"], misdelivered["after"]]
        (account,) = variant["service"]["accounts"].values()
        assert account["ratio"] == pytest.approx([1.0, 1.0])  # there is no other
        assert (variant["inconclusive"] is None) is known
        verdicts = {each["verdict"] for each in variant["figures"].values()}
        assert (verdicts == {"inconclusive"}) is not known
        assert ("every verdict is inconclusive" in found["known"]["sentence"]) is not known


def write_log(path: Path, factor: float) -> None:
    """Jobs of one user as wide as the machine, one after the other, with waits times a factor."""
    rng, free, lines = np.random.default_rng(4), 0.0, ["; MaxProcs: 4"]
    for job in range(1, 121):
        submit = 3600.0 * job
        run = float(rng.integers(600, 6000))
        start = max(free, submit)
        free = start + run
        wait = int(factor * (start - submit))
        fields = [job, int(submit), wait, int(run), 4, -1, -1, 4, 9000, -1, *[1] * 3, -1, 1, 1]
        fields += [-1, -1]
        lines.append(" ".join(map(str, fields)))
    path.write_text("\n".join(lines) + "\n")


def test_people_read_a_table_a_variant_and_see_a_picture(typed: Typed, tmp_path: Path) -> None:
    output = typed.out(*_AT_THE_SITE, "--change", "PriorityWeightAge=0", "--plot", "drawn")
    assert "=== PriorityWeightAge=0" in output
    assert "The log records no starts" in output
    assert "MEAN WAIT BY" in output
    assert (tmp_path / "drawn" / "variant-1.png").read_bytes().startswith(b"\x89PNG")


def test_jobs_of_memory_need_a_cluster(typed: Typed) -> None:
    assert "give --cluster" in typed.refused("week.events", "--change", "PriorityWeightAge=0")


@rows_of("what-if")
def test_what_cannot_be_meant_ends_in_one_sentence(typed: Typed, words: str, said: str) -> None:
    assert said in typed.refused(*_AT_THE_SITE, *shlex.split(words))


def test_a_hook_with_next_to_no_influence_changes_no_start(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        '[policy]\nmodel = "default"\n[hook]\naudit_file = ""\ninfluence_hours = 0.01\n'
        "[guard_rails]\nstarvation_hours = 0\n"
    )
    change = ("--change", "hook default")
    figures, free = (
        document_of(typed, *change, *words)["variants"]["hook default"]["figures"]
        for words in (("--config", "site.toml"), ())
    )
    assert {each["difference"] for each in figures.values()} == {0.0}
    assert free["mean_wait"]["difference"] != 0.0


_TWO = ("--change", "PriorityWeightAge=5", "--change", "hook default")


def test_an_interrupted_run_goes_on_to_the_same_end(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = document_of(typed, *_TWO)
    simulated: list[str] = []
    starts_under = paired.starts_under

    def counted(policy: Candidate, *given: Any) -> Any:
        simulated.append(policy.name)
        return starts_under(policy, *given)

    def interrupted(policy: Candidate, *given: Any) -> Any:
        if policy.name == "default":
            raise KeyboardInterrupt
        return starts_under(policy, *given)

    kept = (*_TWO, "--checkpoint", "kept.jsonl")
    monkeypatch.setattr(side_by_side, "processors_here", lambda: 1)  # one after the other
    monkeypatch.setattr(replay, "starts_under", interrupted)
    status, _, errors = typed(*_AT_THE_SITE, *kept)
    assert status == 1
    assert "interrupted: the same command continues from kept.jsonl." in errors
    steps = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert len(steps) == 1 + 2  # as it is, and under the first change
    monkeypatch.setattr(replay, "starts_under", counted)
    assert document_of(typed, *kept) == whole
    assert simulated == ["default"]
    assert not (tmp_path / "kept.jsonl").exists()


def kept_starts(typed: Typed, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The policies that are simulated where a checkpoint is there; it is kept as it was."""
    simulated: list[str] = []
    starts_under = paired.starts_under
    before = Path("kept.jsonl").read_bytes() if Path("kept.jsonl").exists() else b""

    def counted(policy: Candidate, *given: Any) -> Any:
        simulated.append(policy.name)
        return starts_under(policy, *given)

    with monkeypatch.context() as patched:
        patched.setattr(replay, "starts_under", counted)
        patched.setattr(what_if, "forget_checkpoint", lambda path: None)
        document_of(typed, *words, "--checkpoint", "kept.jsonl")
    if before:
        Path("kept.jsonl").write_bytes(before)
    return sorted(simulated)


def test_starts_are_taken_for_those_of_nothing_else(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job, weight, or model is simulated anew; another variant is added."""
    change = ("--change", "hook mine.onnx")
    (tmp_path / "mine.onnx").write_bytes(MODEL.read_bytes())
    assert kept_starts(typed, monkeypatch, *change) == ["mine.onnx", "multifactor"]
    assert kept_starts(typed, monkeypatch, *change) == []
    assert kept_starts(typed, monkeypatch, *change, "--change", "hook sjf") == ["sjf"]
    network = import_model(MODEL)
    assert isinstance(network, QNetwork)
    other = replace(network, linear=-network.linear)
    export_network(other, tmp_path / "mine.onnx", {})
    assert kept_starts(typed, monkeypatch, *change) == ["mine.onnx"]
    (tmp_path / "mine.onnx").write_bytes(MODEL.read_bytes())
    conf = (tmp_path / "slurm.conf").read_text()
    (tmp_path / "slurm.conf").write_text(conf.replace("WeightAge=1000", "WeightAge=1001"))
    assert "multifactor" in kept_starts(typed, monkeypatch, *change)
    (tmp_path / "slurm.conf").write_text(conf)
    log = (tmp_path / "week.events").read_text().splitlines(keepends=True)
    (tmp_path / "week.events").write_text("".join(log[:200] + log[201:]))
    assert kept_starts(typed, monkeypatch, *change) == ["mine.onnx", "multifactor"]


@rows_of("what-if --checkpoint")
def test_a_checkpoint_spoils_nothing(typed: Typed, tmp_path: Path, words: str, said: str) -> None:
    before = (tmp_path / "week.events").read_bytes()
    assert said in typed.refused(*_AT_THE_SITE, *_TWO, "--checkpoint", words)
    assert (tmp_path / "week.events").read_bytes() == before


TRACES = os.environ.get("SLURM_RL_TRACES")
PAGE = TOP / "docs" / "research" / "what-if-measured.md"
SHOWN = [block.text.strip().splitlines() for block in code_blocks(PAGE) if "what-if" in block.kind]
COMMANDS = [
    each for each in all_commands() if each.words[:1] == ("what-if",) and "ubhpc" in str(each)
]


@pytest.mark.study
@pytest.mark.skipif(not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces")
@pytest.mark.parametrize("example", [0, 1])
def test_an_example_is_what_is_printed(
    example: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: Typed,
) -> None:
    assert len(COMMANDS) == len(SHOWN) == 2
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").symlink_to(str(TRACES))
    printed = [
        " ".join(line.split()) for line in typed.out(*COMMANDS[example].words[1:]).splitlines()
    ]
    assert [line for line in SHOWN[example] if " ".join(line.split()) not in printed] == []
    assert list((tmp_path / "drawn").glob("variant-*.png"))
