"""What Gaussier, Glesser, Reis and Trystram (SC 2015) simulated, as their open results have it.

Mean bounded slowdown and longest time from submission to end of the cells that learn nothing, and
of the learned cell with the least slowdown, which was chosen on the log itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

EASY, EASY_SJBF = "EASY", "EASY-SJBF"
PREDICTED, PLUS_PLUS = "EASY, predicted", "EASY++"
REQUEST, TWICE, TRUE, LAST_RUNS = "request", "twice the request", "true run time", "last two runs"
DOUBLED, REQUESTED, STEPPED = "doubled", "then request", "stepped"


class Cell(NamedTuple):
    """What was simulated.

    Attributes:
        scheduler: EASY and PREDICTED take the first that fits behind the head, the other two the
            shortest.
        predictor: of the run times that the plan goes by.
        correction: of a run time that is outlived; empty where none can be.
    """

    scheduler: str
    predictor: str
    correction: str = ""

    @property
    def name(self) -> str:
        """In words."""
        return ", ".join(filter(None, self))


class Published(NamedTuple):
    """What they got, as text: mean bounded slowdown, and the longest flow time in seconds."""

    slowdown: str
    longest_flow: str


class PublishedLog(NamedTuple):
    """The results on one log.

    Attributes:
        jobs: that they simulated.
        cells: without learning.
        learned: the learned cell of the least slowdown.
    """

    jobs: int
    cells: Mapping[Cell, Published]
    learned: Published


CELLS = (
    Cell(EASY, REQUEST),
    Cell(EASY_SJBF, REQUEST),
    *(
        Cell(scheduler, predictor, correction)
        for scheduler in (PREDICTED, PLUS_PLUS)
        for predictor, correction in (
            (TRUE, ""),
            (REQUEST, ""),
            (TWICE, ""),
            (LAST_RUNS, DOUBLED),
            (LAST_RUNS, REQUESTED),
            (LAST_RUNS, STEPPED),
        )
    ),
)


def _cells(*rows: str) -> Mapping[Cell, Published]:
    return {cell: Published(*row.split()) for cell, row in zip(CELLS, rows, strict=True)}


CTC_SP2 = PublishedLog(
    jobs=77199,
    cells=_cells(
        "49.57 337283",
        "30.04 394322",
        "37.17 278636",
        "49.57 337283",
        "44.17 466761",
        "69.39 4504100",
        "35.32 1977894",
        "64.65 1593167",
        "17.57 334105",
        "30.04 394322",
        "30.40 525048",
        "55.64 4296891",
        "26.53 1544953",
        "85.77 1830776",
    ),
    learned=Published("15.15", "6795451"),
)
SDSC_SP2 = PublishedLog(
    jobs=54006,
    cells=_cells(
        "87.87 463592",
        "84.89 561571",
        "70.48 460728",
        "87.87 463592",
        "82.14 494216",
        "83.99 1106451",
        "79.21 1200079",
        "100.02 743679",
        "56.84 474155",
        "84.89 561571",
        "77.90 588817",
        "98.00 1483691",
        "65.06 1024863",
        "79.40 760866",
    ),
    learned=Published("65.02", "793330"),
)
