"""What each reason of Slurm and each comment of PBS means, in a sentence for the job's user."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.reasons import comment_sentence
from slurm_rl_plugin.batch_systems.slurm.answers.reasons import reason_sentence

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


SLURM = listed("slurm_reasons.txt")
PBS = listed("pbs_comments.txt")
SENTENCES = [
    *((reason, reason_sentence(reason)) for reason in SLURM),
    *((comment, comment_sentence(comment)) for comment in PBS),
]


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
    assert Counter(reason_sentence(reason) for reason in SLURM).most_common(1)[0][1] == 1


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (
            "AssocGrpCpuLimit",
            "the account or user has too little left of the limit on processors; "
            "wait, or ask for less",
        ),
        (
            "QOSMaxGRESPerUser",
            "the user in this QOS has too little left of the limit on GPUs or other GRES; "
            "wait, or ask for less",
        ),
        (
            "AssocGrpCPURunMinutesLimit",
            "running jobs of the account or user hold the allowed processor-minutes; "
            "wait, or shorten TimeLimit",
        ),
        (
            "QOSMaxJobsPerUserLimit",
            "the user in this QOS has as many running jobs as allowed; wait until one ends",
        ),
        (
            "ReqNodeNotAvail,_UnavailableNodes:n[1-4]",
            "nodes that the job needs are down, drained or reserved; "
            "wait, or ask for other nodes or for an end before the reservation",
        ),
    ],
)
def test_a_limit_is_read_by_its_parts_and_details_are_left_out(reason: str, sentence: str) -> None:
    assert reason_sentence(reason) == sentence


@pytest.mark.parametrize(
    "sentence", [reason_sentence("GalaxyAlignment"), comment_sentence("Not Running: new words")]
)
def test_an_unknown_reason_is_said_to_be_unknown(sentence: str) -> None:
    assert sentence == ("this release of slurm-rl does not know the reason; ask the administrators")


@pytest.mark.parametrize(
    ("comment", "sentence"),
    [
        (
            "Not Running: would exceed group physics's limit on resource ncpus in complex",
            "the group has too little left of the limit on ncpus; wait, or ask for less",
        ),
        (
            "Not Running: Server job limit reached for project apollo",
            "the project has as many running jobs as allowed; wait until one ends",
        ),
        (
            "Can Never Run: Insufficient amount of resource: ngpus (R: 9 A: 8 T: 8)",
            "too little ngpus is free, at all times; change the request",
        ),
    ],
)
def test_a_comment_of_pbs_names_whose_limit_on_what(comment: str, sentence: str) -> None:
    assert comment_sentence(comment) == sentence
