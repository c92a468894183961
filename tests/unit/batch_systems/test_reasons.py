"""Why a job waits: whose doing it is, and a sentence on it for the job's user."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers import fields as pbs_reasons
from slurm_rl_plugin.batch_systems.pbs.queue import comment_sentence
from slurm_rl_plugin.batch_systems.port import LimitKeys
from slurm_rl_plugin.batch_systems.slurm.answers import fields as slurm_reasons
from slurm_rl_plugin.batch_systems.slurm.cluster import reason_sentence
from tests.case_files import rows
from tests.fakes.fake_cluster import FakeCluster

ASSETS = Path(__file__).parents[2] / "assets"
#: More words than anybody reads.
LONG = 27
#: Words that a reader who is not a native speaker can take in two ways.
UNCLEAR = {
    *("it's", "beside", "stands", "lately", "worth", "whoever", "somebody", "may", "once"),
    *("since", "told", "tells", "foretold", "mend", "good"),
}


def listed(name: str) -> list[str]:
    lines = (ASSETS / name).read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


SLURM = [line.split(": ", 1) for line in listed("slurm_reasons.txt")]
SENTENCES = [*SLURM, *([each, comment_sentence(each)] for each in listed("pbs_comments.txt"))]


@pytest.mark.parametrize(("reason", "sentence"), SLURM)
def test_what_is_said_of_a_reason_of_slurm(reason: str, sentence: str) -> None:
    assert reason_sentence(reason) == reason_sentence(f"{reason}, n[1-4]") == sentence


@pytest.mark.parametrize(("reason", "sentence"), SENTENCES)
def test_every_reason_has_a_short_sentence_that_says_what_to_do(reason: str, sentence: str) -> None:
    assert "does not know the reason" not in sentence
    meaning, advice = sentence.split("; ")
    assert meaning
    assert advice
    assert len(sentence.split()) < LONG
    words = set(sentence.lower().replace(",", "").replace(";", "").split())
    assert not words & UNCLEAR


def test_no_sentence_of_slurm_means_two_reasons() -> None:
    assert Counter(sentence for _, sentence in SLURM).most_common(1)[0][1] == 1


def test_an_unknown_reason_is_said_to_be_unknown() -> None:
    said = "this release of slurm-rl does not know the reason; ask the administrators"
    assert reason_sentence("GalaxyAlignment") == said
    assert comment_sentence("Not Running: new words") == ""


@rows("slurm", "comments", "comment sentence")
def test_a_comment_of_pbs_names_whose_limit_on_what(comment: str, sentence: str) -> None:
    assert comment_sentence(comment) == sentence


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("Resources,Priority", True), ("Priority,JobArrayTaskLimit", False), ("Licenses", False)],
)
def test_an_array_waits_for_processors_where_all_its_records_do(
    reason: str, expected: bool
) -> None:
    assert slurm_reasons.waits_for_processors(reason) == expected
    assert slurm_reasons.is_own_doing(reason) is False  # of a reason first


@pytest.mark.parametrize(
    ("settings", "kept_back"),
    [
        (LimitKeys(mechanism="qos", qos="batch"), [True, False, False]),
        (LimitKeys(mechanism="licenses", license="slot"), [False, False, True]),
        (LimitKeys(), [False, False, False]),
    ],
)
def test_who_our_own_limit_keeps_back_waits_for_processors(
    cluster: FakeCluster, settings: LimitKeys, kept_back: list[bool]
) -> None:
    cluster.add(1, reason="QOSGrpCpuLimit", qos="batch")
    cluster.add(2, reason="QOSGrpCpuLimit", qos="normal")
    cluster.add(3, reason="Licenses", qos="batch")
    pending = cluster.adapter(limit=settings).snapshot().pending
    assert pending.each_for_processors.tolist() == kept_back
    assert not pending.each_own_doing.any()


def test_a_snapshot_says_why_each_job_waits(cluster: FakeCluster) -> None:
    cluster.add(1, reason="Priority")
    cluster.add(2, reason="ReqNodeNotAvail, UnavailableNodes:n[1-3]")
    snapshot = cluster.adapter().snapshot()
    assert snapshot.pending.reason is not None
    said = [snapshot.reasons[each] for each in snapshot.pending.reason.tolist()]
    assert said[0] == "Priority: jobs before it start first; wait for its turn"
    assert said[1].startswith("ReqNodeNotAvail: nodes that the job needs are down, drained or")


@rows("slurm", "waits", "comment own for_processors")
def test_comments_of_pbs(comment: str, own: bool, for_processors: bool) -> None:
    assert pbs_reasons.is_own_doing(comment) is own
    assert pbs_reasons.is_for_processors(comment) is for_processors
