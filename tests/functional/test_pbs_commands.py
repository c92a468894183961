"""The daemon and the commands on the fake PBS: the same cycle, and what is special about it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import read_sched_config
from tests.fakes.fake_pbs_cluster import DEFAULT_SCORE, FakePbs
from tests.fakes.running_daemon import running_daemon, stop, until
from tests.functional.typed import Typed

#: Minutes that jobs ask for, in the order of their submission; the policy is sjf.
MINUTES = {1: 50, 2: 40, 3: 30, 4: 20, 5: 10}


@pytest.fixture
def site(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> FakePbs:
    fake = FakePbs(tmp_path, library)
    now = int(time.time())  # noqa: TID251 - the clock of the commands
    for job, minutes in MINUTES.items():
        when = now - 1000 + job
        resources = {"ncpus": 2, "walltime": f"00:{minutes}:00", "rl_score": DEFAULT_SCORE}
        fake.add(f"{job}.head", ctime=when, qtime=when, etime=when, Resource_List=resources)
    fake.add("6.head", job_state="H", Hold_Types="u", etime=None, ctime=now)
    config = "by_queue: False\tprime\nstrict_ordering: true\tALL\n"
    (fake.home / "sched_priv" / "sched_config").write_text(config)
    fake.enter(monkeypatch)
    monkeypatch.chdir(tmp_path)
    configure(tmp_path)
    return fake


def configure(folder: Path, mode: str = "active", adapter: str = "auto") -> None:
    (folder / "site.toml").write_text(
        f'[hook]\nmode = "{mode}"\ncycle = 0.5\ndisable_file = "{folder}/DISABLE"\n'
        f'state_file = "{folder}/state.json"\naudit_file = "{folder}/audit.jsonl"\n'
        f'[batch_system]\nadapter = "{adapter}"\n[policy]\nmodel = "sjf"\n[metrics]\nport = 0\n'
    )


def scores(site: FakePbs) -> dict[int, float]:
    return {job: site.score(f"{job}.head") for job in MINUTES}


def by_score(site: FakePbs) -> list[int]:
    found = scores(site)
    return sorted(found, key=lambda job: -found[job])


def checks_of(words: Typed, code: int = 0) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in words.json("check", code=code)["checks"]}


@pytest.mark.parametrize("adapter", ["auto", "pbs"])
def test_a_cycle_gives_the_order_of_the_policy_and_release_takes_it_back(
    site: FakePbs, tmp_path: Path, adapter: str, words: Typed
) -> None:
    configure(tmp_path, "shadow", adapter)
    words.out("run", "--once")
    assert set(scores(site).values()) == {DEFAULT_SCORE}
    configure(tmp_path, "active", adapter)
    words.out("run", "--once")
    assert by_score(site) == [5, 4, 3, 2, 1]
    assert len(set(scores(site).values())) == 5
    assert site.score("6.head") == DEFAULT_SCORE  # held jobs are let be
    assert all(isinstance(score, int) for score in scores(site).values())
    words.out("queue")
    words.out("release")
    assert set(scores(site).values()) == {DEFAULT_SCORE}


def test_jobs_that_ended_are_counted_and_are_no_failure(site: FakePbs, words: Typed) -> None:
    words.out("run", "--once")
    for job in (1, 2, 3):
        site.forget(f"{job}.head")
    site.run_job("4.head")
    lines = words.out("release").splitlines()
    assert lines[0] == "released 1 jobs"
    assert lines[1].startswith("3 jobs have started or ended")
    assert "2 'Unknown Job Id'" in lines[1]
    assert len(lines) == 2


def test_without_the_formula_active_mode_is_refused(site: FakePbs, words: Typed) -> None:
    site.set_server(job_sort_formula="queue_priority")
    assert "slurm-rl pbs-setup --print" in words.refused("run", "--once")


def test_a_daemon_beside_each_server_is_refused(
    site: FakePbs, tmp_path: Path, words: Typed
) -> None:
    """Both would act, since a daemon cannot see which of two servers is in charge."""
    path = tmp_path / "site.toml"
    path.write_text(path.read_text().replace("[hook]", "[hook]\nbeside_controllers = true"))
    assert "beside_controllers is for Slurm alone" in words.refused("run", "--once")
    assert set(scores(site).values()) == {DEFAULT_SCORE}
    checks = checks_of(words, code=1)
    assert checks["controller"]["result"] == "fail"
    assert "run one daemon" in checks["controller"]["what"]


def test_check_of_a_site_where_all_is_well_but_a_name(
    site: FakePbs, tmp_path: Path, words: Typed
) -> None:
    site.set_server(eligible_time_enable="True")
    before = scores(site)
    checks = checks_of(words)
    others = {name for name, each in checks.items() if each["result"] != "pass"}
    # any free port in this test; our order cannot be bounded on PBS
    assert others == {"metrics port", "influence", "fair share"}, checks
    assert "users can neither see nor set it" in checks["resource"]["what"]
    assert scores(site) == before
    with (tmp_path / "site.toml").open("a") as file:
        file.write(
            '[guard_rails]\nexempt_accounts = ["any"]\n'
            'exempt_partitions = ["workq", "wrokq"]\nexempt_qos = ["fast"]\n'
        )
    found = checks_of(words)["exemptions"]
    assert found["result"] == "warn"
    assert "there is no partition wrokq, QOS fast here" in found["what"]


def test_explain_says_what_a_comment_of_pbs_means(site: FakePbs, words: Typed) -> None:
    comment = "Not Running: Server job limit reached for user alice"
    site.change("5.head", comment=comment)
    said = "".join(words.out("explain", job) for job in (5, 6))
    assert "Class: interactive, by the rule: " in said
    assert "scontrol" not in said
    limited, held = [line for line in said.splitlines() if line.startswith("Reason ")]
    assert limited == (
        f"Reason {comment}: the user has as many running jobs as allowed; wait until one ends. "
        "Our order cannot change that; it keeps place 1 of 5 for the job."
    )
    assert held == (
        "Reason Held: a hold is on the job, or it depends on a job; use `qrls`, or wait for that "
        "job. Our order gives the job no place until then."
    )


def test_a_daemon_that_is_stopped_leaves_neither_scores_nor_heartbeat(
    site: FakePbs, tmp_path: Path
) -> None:
    with running_daemon(tmp_path, tmp_path / "daemon.log") as process:
        until(lambda: by_score(site) == [5, 4, 3, 2, 1], "the order or the heartbeat")
        assert (tmp_path / "heartbeat").exists()
        stop(process)
    assert set(scores(site).values()) == {DEFAULT_SCORE}
    assert not (tmp_path / "heartbeat").exists()


def test_a_daemon_that_is_killed_leaves_the_heartbeat_to_grow_old(
    site: FakePbs, tmp_path: Path
) -> None:
    heartbeat = tmp_path / "heartbeat"
    with running_daemon(tmp_path, tmp_path / "daemon.log") as process:
        until(lambda: by_score(site) == [5, 4, 3, 2, 1], "the order or the heartbeat")
        first = heartbeat.stat().st_mtime_ns
        until(lambda: heartbeat.stat().st_mtime_ns > first, "the order or the heartbeat")
        process.kill()
        process.wait(timeout=30)
    assert heartbeat.exists()
    assert by_score(site) == [5, 4, 3, 2, 1]


def setup_lines(words: Typed, *more: str) -> list[str]:
    return words.out("pbs-setup", "--print", *more).splitlines()


TERMS = "queue_priority + ncpus"


@pytest.mark.parametrize(
    ("now", "terms"),
    [
        ("", ""),
        ("rl_score", ""),
        (TERMS, TERMS),
        (f"1000*rl_score + ({TERMS})", TERMS),
        (f"1000*rl_score + asinh({TERMS})", TERMS),
    ],
)
def test_setup_keeps_the_sites_own_terms(site: FakePbs, words: Typed, now: str, terms: str) -> None:
    site.set_server(job_sort_formula=now)
    lines = setup_lines(words)
    ours = f"1000*rl_score + asinh({terms})" if terms else "rl_score"
    assert done_by(lines)[-1] == f'set server job_sort_formula = "{ours}"'
    back = f'set server job_sort_formula = "{terms}"' if terms else "unset server job_sort_formula"
    assert undo_of(lines) == [back]
    settings = next(line for line in lines if "heartbeat" in line)
    told = json.loads(shlex.split(settings.partition("echo ")[2])[0])
    assert (told["formula"], told["heartbeat"]) == (terms, str(Path.cwd() / "heartbeat"))


def done_by(lines: list[str]) -> list[str]:
    return [shlex.split(line)[2] for line in lines if line.startswith("qmgr -c")]


def undo_of(lines: list[str]) -> list[str]:
    """What undoes the last step, the formula."""
    step = "\n".join(lines).rpartition("\n\n")[2].splitlines()
    return [shlex.split(line.partition("undo: ")[2])[2] for line in step if "undo: " in line]


def test_a_formula_of_server_and_schedulers_is_given_back_to_each(
    site: FakePbs, words: Typed
) -> None:
    site.set_server(job_sort_formula="ncpus")
    own = {"default": {"job_sort_formula": "ncpus"}, "second": {"job_sort_formula": "rl_score"}}
    site.set(schedulers=["default", "second"], sched=own)
    assert undo_of(setup_lines(words)) == [
        'set server job_sort_formula = "ncpus"',
        'set sched default job_sort_formula = "ncpus"',
    ]


def test_setup_keeps_the_terms_of_a_schedulers_own_formula(site: FakePbs, words: Typed) -> None:
    """PBS refuses a formula of the server in addition to it."""
    site.set_server(job_sort_formula="")
    site.set(sched={"default": {"job_sort_formula": "queue_priority"}})
    lines = setup_lines(words)
    assert done_by(lines)[-2:] == [
        "unset sched default job_sort_formula",
        'set server job_sort_formula = "1000*rl_score + asinh(queue_priority)"',
    ]
    undone = [
        "unset server job_sort_formula",
        'set sched default job_sort_formula = "queue_priority"',
    ]
    assert undo_of(lines) == undone
    lines = setup_lines(words, "--formula=ncpus")
    assert "unset sched default job_sort_formula" in "\n".join(lines)
    assert undo_of(lines) == undone
    two = {"default": {"job_sort_formula": "ncpus"}, "second": {"job_sort_formula": "mem"}}
    site.set(schedulers=["default", "second"], sched=two)
    assert "different formulas" in words.refused("pbs-setup", "--print")


def test_every_step_of_the_setup_can_be_undone(site: FakePbs, words: Typed) -> None:
    lines = setup_lines(words, "--user", "slurmrl@head")
    steps = "\n".join(lines).split("\n\n")[1:]
    assert len(steps) == 7
    assert lines[1].startswith(
        "# To undo, stop the daemon, then go from the last step to the first"
    )
    assert all("undo: " in step for step in steps)
    assert "2530" in steps[-1]
    assert any("operators += slurmrl@head" in step for step in steps)


@pytest.mark.parametrize(
    "before",
    [
        "by_queue: True\t\tprime\nby_queue: True\t\tnon_prime\n",  # as shipped
        "by_queue: true ALL\n",
        "by_queue: False ALL\n#by_queue: True\n",
        "by_queue: False prime\nby_queue: TRUE non_prime\n",
    ],
)
def test_sched_config_is_after_the_undo_what_it_was(
    site: FakePbs, words: Typed, before: str
) -> None:
    config = site.home / "sched_priv" / "sched_config"
    config.write_text(f"round_robin: False\tall\n{before}strict_ordering: true ALL\n")
    was = config.read_text()
    steps = "\n".join(setup_lines(words)).split("\n\n")
    (lines,) = [each.splitlines() for each in steps if "by_queue" in each]

    def run(line: str) -> None:
        told = line.replace("/etc/pbs.conf", site.env["PBS_CONF_FILE"])
        told = told.replace("pkill -HUP -x pbs_sched", "true")
        subprocess.run(["/bin/sh", "-c", told], env={"PATH": os.defpath}, check=True)

    for _ in range(2):
        run(lines[1])
        assert not read_sched_config(config).ever("by_queue")
    run(lines[2].partition("undo: ")[2])
    assert config.read_text() == was


def test_setup_names_hooks_that_are_there(site: FakePbs, words: Typed) -> None:
    named = {word for line in setup_lines(words) for word in line.split() if "/slurm_rl_" in word}
    files = {Path(word.strip("'\"")) for word in named}
    assert len(files) == 3
    assert all(path.is_absolute() and path.exists() for path in files)


def test_a_formula_that_cannot_be_taken_apart_is_refused(site: FakePbs, words: Typed) -> None:
    site.set_server(job_sort_formula="2*rl_score + ncpus")
    assert "--formula" in words.refused("pbs-setup", "--print")


def test_a_job_of_pbs_carries_its_class_in_a_resource(
    site: FakePbs, tmp_path: Path, words: Typed
) -> None:
    with (tmp_path / "site.toml").open("a") as file:
        file.write('[utility.mine]\nform = "deadline"\nsigma = 90\nusers = true\n')
    now = int(time.time())  # noqa: TID251 - the clock of the commands
    asked = {"ncpus": 2, "walltime": "00:50:00", "slurm_rl": "slurm-rl:class=mine"}
    site.add("7.head", ctime=now - 900, qtime=now - 900, etime=now - 900, Resource_List=asked)
    assert "Utility: class mine, as its user asks: 0.000 if it starts" in words.out("explain", "7")
