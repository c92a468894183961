"""The commands as a user types them: results, and one sentence with exit code 2 for bad input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from slurm_rl_plugin.cli import benchmark
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.hook.order.queue_plan import OrderChanges
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.policies.registry import NAMED_POLICIES
from slurm_rl_plugin.units import IntArray
from tests.functional.small_site import small_network
from tests.functional.typed import Typed, rows_of

SWF_ROW = "{id} {submit} 5 {run} 1 -1 -1 1 900 -1 1 1 {group} -1 1 -1 -1 -1"


@pytest.fixture
def swf(tmp_path: Path) -> Path:
    """Sixty sequential jobs of two groups on two processors."""
    rows = ["; MaxProcs: 2"]
    for number in range(60):
        row = SWF_ROW.format(
            id=number + 1, submit=number * 60, run=30 + 40 * (number % 9), group=1 + number % 2
        )
        rows.append(row)
    path = tmp_path / "small.swf"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    export_network(small_network(), path, {"estimates": "requested"})
    return path


@pytest.mark.parametrize("verb", ["disable", "evaluate"])
def test_a_closed_standard_error_stops_no_verb(verb: str) -> None:
    words = [sys.executable, "-m", "slurm_rl_plugin.cli.entry", verb, "--help"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *words],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: slurm-rl {verb}")


@pytest.mark.parametrize(("asked", "threads"), [(None, {1}), ("2", {2})])
def test_matrices_are_multiplied_on_one_thread_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, threads: set[int]
) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one processor: numpy has one thread whatever is asked for; needs two")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", asked)
    program = (
        "import json, os\nfrom slurm_rl_plugin.cli.entry import verb_parser\n"
        "verb_parser('benchmark')\nfrom threadpoolctl import threadpool_info\n"
        "found = [p['num_threads'] for p in threadpool_info() if p['user_api'] == 'blas']\n"
        "print(json.dumps([found, os.environ.get('OPENBLAS_NUM_THREADS')]))"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    found, left = json.loads(done.stdout)
    assert set(found) == threads
    assert left == asked  # jobs that are submitted take the environment along


def test_evaluate_gives_the_documented_json(typed: Typed, swf: Path, model: Path) -> None:
    words = ["--policy", "fifo", "--policy", model, "--policy", "native"]
    document = typed.json("evaluate", swf, *words)
    assert document["log"]["jobs"] == document["log"]["ran"] == 60
    assert document["log"]["processors"] == 2
    assert document["log"]["shares"].keys() == {"1", "2"}
    assert set(document["policies"]) == {"fifo", str(model), "native"}
    fields = {
        *("jobs", "mean_wait", "std_wait", "max_wait", "mean_bounded_slowdown", "utilization"),
        *("responsiveness", "time_utility", "fairness", "fairness_final", "objective"),
        *("relative_overhead_p90", "classes", "accounts", "misdelivered"),
    }
    class_fields = {
        *("jobs", "mean_wait", "median_wait", "std_wait", "p95_wait", "max_wait"),
        *("within_120s", "responsiveness", "time_utility", "mean_bounded_slowdown"),
    }
    for entry in document["policies"].values():
        assert set(entry) == fields
        assert set(entry["classes"]["interactive"]) == class_fields
    assert document["policies"]["native"]["mean_wait"] == 5


def test_evaluate_tells_people_what_the_columns_mean_and_who_waits(typed: Typed, swf: Path) -> None:
    _, out, _ = typed("evaluate", swf)
    assert "WAIT, MAXWAIT: mean and longest wait, in seconds unless marked h" in out
    assert "BSLD: mean bounded slowdown" in out
    assert "R, U, F: responsiveness, time utility and fairness" in out
    rows = [line.split() for line in out.splitlines()]
    (header,) = (row for row in rows if row[:2] == ["JOBS", "BY"] and "sjf" in row)
    assert header == ["JOBS", "BY", "JOBS", "fifo", "sjf"]
    assert [row[1:3] for row in rows if row[:1] == ["account:"]][:2] == [["1", "30"], ["2", "30"]]


def test_single_jobs_without_a_start_are_dropped_and_counted(
    typed: Typed, swf: Path, tmp_path: Path
) -> None:
    lines = swf.read_text().splitlines()
    lines[7] = lines[7].replace(" 5 ", " -1 ", 1)  # its wait is not known
    swf.write_text("\n".join(lines) + "\n")
    document = typed.json("evaluate", swf, "--policy", "native")
    assert (document["log"]["jobs"], document["log"]["ran"]) == (60, 59)
    assert document["log"]["dropped"] == {"no recorded start": 1}
    assert document["policies"]["native"]["jobs"] == 59
    left_out = "Jobs of the log that were left out: 1 no recorded start."
    assert left_out in typed.out("evaluate", swf, "--policy", "native")
    assert typed.json("evaluate", swf)["log"]["ran"] == 60  # rules need no recorded start
    out = typed.out("shadow-report", swf, "--set", "policy.model=sjf")
    assert "Replay of 59 jobs" in out
    assert "Jobs that were left out: 1 no recorded start." in out


def test_what_a_log_lacks_for_a_policy_is_refused(typed: Typed, swf: Path) -> None:
    swf.write_text(swf.read_text().replace(" 5 ", " -1 "))
    assert "which 60 jobs of this log lack" in typed.refused("evaluate", swf, "--policy=native")
    reserve = ("--policy", "reserve:1", "--partitions", "1=2")
    assert "on processors that all jobs share" in typed.refused("evaluate", swf, *reserve)


def test_evaluate_drops_jobs_from_the_count_but_not_from_the_queue(typed: Typed, swf: Path) -> None:
    found = typed.json("evaluate", swf, "--drop", "10,20", "--policy", "fifo")
    assert found["policies"]["fifo"]["jobs"] == 30


def test_train_writes_a_model_that_evaluate_takes(typed: Typed, swf: Path, tmp_path: Path) -> None:
    path = tmp_path / "trained.onnx"
    out = typed.out("train", swf, "-o", path, "--steps", 2, "--hidden", 2)
    assert "warning: the training part (36 jobs in 35 minutes) and the validation part" in out
    manifest = json.loads(path.with_suffix(".json").read_text())
    assert manifest["sources"][0]["log"] == "small.swf"
    assert manifest["sha256"] in path.with_suffix(".md").read_text()
    assert typed("evaluate", swf, "--policy", path)[0] == 0
    assert not list(tmp_path.glob("*.checkpoint"))


def test_impossible_values_are_counted_and_dropped(typed: Typed, swf: Path) -> None:
    lines = swf.read_text().splitlines()
    lines[3] = SWF_ROW.format(id=3, submit=120, run=-7, group=1)
    swf.write_text("\n".join(lines))
    entry = typed.json("evaluate", swf)["log"]
    assert (entry["jobs"], entry["ran"]) == (60, 59)
    assert sum(entry["dropped"].values()) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "cut.swf",
            lambda whole: whole.replace(b" -1\n", b"\n", 6)[:900],
            "cut.swf:2: the line has 17 columns",
        ),
        ("cut.swf.gz", lambda whole: gzip.compress(os.urandom(200) + whole)[:300], "cut.swf.gz"),
        ("bare.swf", lambda whole: whole.partition(b"\n")[2], "--processors"),
        ("sacct.log", lambda _: b"JobID|Submit|End|State\n1|2026-01-01T00:00:00|x|C\n", "Start"),
    ],
    ids=["a row of 17 columns", "cut off", "no size of the machine", "no field for the start"],
)
def test_what_is_wrong_with_a_log_is_one_sentence(
    typed: Typed, swf: Path, name: str, content: Callable[[bytes], bytes], said: str
) -> None:
    path = swf.with_name(name)
    path.write_bytes(content(swf.read_bytes()))
    assert said in typed.refused("evaluate", path)


def test_a_graph_that_we_did_not_write_is_driven_by_onnxruntime(
    typed: Typed, swf: Path, tmp_path: Path
) -> None:
    """Scores are minus the logarithm of the time limit: shortest job first."""
    path, place = tmp_path / "foreign.onnx", SITE.jobs.index("log_time_limit")
    graph = helper.make_graph(
        [
            helper.make_node("Slice", ["jobs", "place", "behind", "one"], ["limit"]),
            helper.make_node("Neg", ["limit"], ["negative"]),
            helper.make_node("Squeeze", ["negative", "one"], ["alone"]),
            helper.make_node("ReduceSum", ["queue"], ["total"], keepdims=1),
            helper.make_node("Add", ["alone", "total"], ["score"]),
        ],
        "foreign",
        [
            helper.make_tensor_value_info("queue", TensorProto.FLOAT, [len(SITE.queue)]),
            helper.make_tensor_value_info("jobs", TensorProto.FLOAT, ["n", len(SITE.jobs)]),
        ],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n"])],
        initializer=[
            helper.make_tensor("place", TensorProto.INT64, [1], [place]),
            helper.make_tensor("behind", TensorProto.INT64, [1], [place + 1]),
            helper.make_tensor("one", TensorProto.INT64, [1], [1]),
        ],
    )
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(onnx_model, {"schema_name": SITE.name, "schema_digest": SITE.digest})
    onnx.save(onnx_model, path)
    header, *rows = swf.read_text().splitlines()
    limits = [row.replace(" 900 ", f" {600 - 60 * (place % 7)} ") for place, row in enumerate(rows)]
    swf.write_text("\n".join([header, *limits]) + "\n")
    words = ["--policy", path, "--policy", "sjf", "--policy", "fifo"]
    policies = typed.json("evaluate", swf, *words)["policies"]
    assert policies[str(path)]["mean_wait"] == policies["sjf"]["mean_wait"]
    assert policies["sjf"]["mean_wait"] != policies["fifo"]["mean_wait"]


def test_benchmark_hook_gives_the_documented_json(typed: Typed, model: Path) -> None:
    for policy in (model, "wfp3"):  # the rule changes while jobs wait
        words = ["--jobs", 500, "--repeats", 3, "--policy", policy]
        document = typed.json("benchmark", "hook", *words)
        assert document["jobs"] == 500
    assert set(document["decide_seconds"]) == {"median", "p99"}
    assert document["writes"] == document["minimum_writes"]


def test_benchmark_hook_fails_where_the_writes_are_not_the_fewest(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_more(priority: IntArray, most: int | None = None) -> OrderChanges:
        return OrderChanges(place=np.arange(len(priority) + 1), priority=priority)

    words = ["--jobs", 40, "--repeats", 1, "--policy", "sjf", "--json"]
    assert typed("benchmark", "hook", *words)[0] == 0
    monkeypatch.setattr(benchmark, "order_changes", one_more)
    code, out, err = typed("benchmark", "hook", *words)
    assert (code, json.loads(out)["writes"]) == (1, 41)
    assert "the hook sends 41 writes, but 40 are enough" in err


def test_evaluate_takes_every_name(typed: Typed, swf: Path) -> None:
    names = [*NAMED_POLICIES, "reserve:1"]
    words = [word for name in names for word in ("--policy", name)]
    policies = typed.json("evaluate", swf, *words)["policies"]
    assert list(policies) == names
    own = policies["reserve:1"]["classes"]
    words = ["--policy", "interactive-first", "--reserve=1"]
    kept = typed.json("evaluate", swf, *words)["policies"]["interactive-first"]["classes"]
    assert own == kept


def test_an_unknown_name_is_told_with_every_name_before_the_log_is_read(
    typed: Typed, tmp_path: Path
) -> None:
    told = typed.refused("evaluate", tmp_path / "none.swf", "--policy", "lifo")
    assert "unknown policy 'lifo'" in told
    assert all(name in told for name in NAMED_POLICIES)


@rows_of("evaluate")
def test_what_does_not_go_together_is_one_sentence(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.toml").write_text("")
    assert said in typed.refused("evaluate", *words.split())


@rows_of("other commands")
def test_what_other_verbs_do_not_take(typed: Typed, words: str, said: str) -> None:
    sentence = typed.refused(*words.split())
    assert said in sentence
    assert "none.swf" not in sentence  # read too late, it would be what the sentence is about
