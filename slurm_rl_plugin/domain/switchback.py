"""A switchback experiment as it was declared: which order is in force in which block of time.

Site and daemon, or two models, hold the same queue in turns. A pair is the same hours of two days
that follow each other; a coin of its own says who holds it on the first day, and the other has the
second. So every hour of the day is held once by each of both in two days, and which one comes first
is not known beforehand (Bojinov, Simchi-Levi and Zhao 2023).
"""

from __future__ import annotations

import bisect
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import DAY, HOUR, BoolArray, FloatArray, IntArray

#: Whose order a block has: what the site would have without the experiment (its own order, our
#: factors removed; or, with a challenger, the model in service), or what is on trial.
SITE, OURS = "site", "ours"
ARMS = (SITE, OURS)
#: What users are cost by, the first by default (`what_if.switchback.costs`).
GOAL_NAMES = (
    *("bounded_slowdown", "interactive_wait", "wait", "longest_wait"),
    *("unused", "unfairness"),
)
#: Hours that a block may have, so that days are whole blocks.
BLOCK_HOURS = (2, 3, 4, 6, 8, 12, 24)
#: The first pairs are of the shortest blocks: who does harm shall not do it for long.
_CAREFUL_DAYS = 2
#: Seconds of a wash-out at most.
_LONGEST_WASH_OUT = HOUR
_WASH_OUT = 1.0 / 8.0
#: Part of a fortnight's service that may go to the wrong account. In nine loads that ask much of
#: shares an order that ignores them misdelivers 0.09, and one that keeps them 0.03
#: (docs/research/order-measured.md).
MISDELIVERED = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBlock:
    """A time in which one order is in force."""

    begin: float  #: seconds since the epoch
    end: float  #: seconds since the epoch
    arm: str  #: one of ARMS
    pair: int  #: number of the pair that it belongs to

    @property
    def counted_from(self) -> float:
        """The end of the wash-out, in which what came before still acts, seconds."""
        return self.begin + min(_WASH_OUT * (self.end - self.begin), _LONGEST_WASH_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What was declared before an experiment began; nothing of it changes while it lasts."""

    goal: str  #: name of the goal that decides whether anything is gained
    harm: float  #: ratio of a goal's cost, ours over the site's, beyond which it is harm
    longest_wait: float  #: most seconds that a job may wait under our order; inf for no bound
    policy: str  #: its name
    model_sha256: str  #: of the model on trial; "" for a rule
    seed: int  #: of the coins
    day: float  #: seconds of a day; less where time is compressed
    blocks: tuple[TurnBlock, ...]  #: in order of time, without gaps
    #: Path of the model on trial, a challenger of the one in service; "" where the one in service
    #: is itself on trial, against the site's own order.
    candidate: str = ""
    champion: str = ""  #: name of the policy in service, with a challenger; else ""
    champion_sha256: str = ""  #: of its model
    misdelivered: float = MISDELIVERED  #: part of a fortnight's service that may go wrong

    @property
    def against(self) -> str:
        """What it is compared with, in words."""
        return f"the model in service ({self.champion})" if self.candidate else "the site's order"

    @property
    def on_trial(self) -> str:
        """What is compared, in words."""
        return "the candidate" if self.candidate else "ours"

    @property
    def in_service(self) -> tuple[str, str]:
        """Name of the policy that the configuration has to name, and checksum of its model."""
        if self.candidate:
            return self.champion, self.champion_sha256
        return self.policy, self.model_sha256

    @property
    def begin(self) -> float:
        """When the first block begins, seconds since the epoch."""
        return self.blocks[0].begin

    @property
    def end(self) -> float:
        """When the last block ends, seconds since the epoch."""
        return self.blocks[-1].end

    @property
    def name(self) -> str:
        """Its identity, 16 digits: a hash of all that was declared."""
        text = json.dumps(self.as_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def block_at(self, time: float) -> TurnBlock | None:
        """The block of a time; None before the first and behind the last."""
        place = bisect.bisect_right(self.blocks, time, key=lambda block: block.begin) - 1
        if place < 0 or time >= self.blocks[place].end:
            return None
        return self.blocks[place]

    def closed(self, now: float) -> int:
        """How many blocks are over."""
        return bisect.bisect_right(self.blocks, now, key=lambda block: block.end)

    def as_json(self) -> dict[str, Any]:
        """As `of_json` reads it."""
        document = asdict(self)
        document["longest_wait"] = None if math.isinf(self.longest_wait) else self.longest_wait
        if self.misdelivered == MISDELIVERED:  # so named as before there was such a bound
            del document["misdelivered"]
        document["blocks"] = [[b.begin, b.end, b.arm, b.pair] for b in self.blocks]
        return document

    @classmethod
    def of_json(cls, document: Any) -> Declaration:
        """What `as_json` made; ValueError for another document."""
        try:
            given = dict(document)
            blocks = tuple(_block(*row) for row in given.pop("blocks"))
            bound = given.pop("longest_wait")
            found = cls(**given, longest_wait=math.inf if bound is None else bound, blocks=blocks)
            found._check()
        except (TypeError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(f"no experiment was declared so: {error}") from None
        return found

    def _check(self) -> None:
        """Refuse what no `as_json` makes."""
        numbers = (self.harm, self.longest_wait, self.day, self.misdelivered)
        if not self.blocks or not all(each > 0.0 for each in numbers) or math.isinf(self.harm):
            raise ValueError("an experiment without blocks or bounds")
        champion = (self.candidate, self.champion, self.champion_sha256)
        texts = (self.goal, self.policy, self.model_sha256, *champion)
        if not all(isinstance(each, str) for each in texts):
            raise ValueError("an experiment without a goal or a model")
        if self.goal not in GOAL_NAMES:
            raise ValueError(f"an experiment for {self.goal!r}")
        if bool(self.candidate) != bool(self.champion):
            raise ValueError("a challenger without a champion")
        for earlier, later in zip(self.blocks, self.blocks[1:], strict=False):
            if later.begin != earlier.end:
                raise ValueError("blocks with gaps")
        arms: dict[int, list[str]] = {}
        for block in self.blocks:
            arms.setdefault(block.pair, []).append(block.arm)
        if any(sorted(each) != sorted(ARMS) for each in arms.values()):
            raise ValueError("pairs that either order does not hold once")


def _block(begin: float, end: float, arm: str, pair: int) -> TurnBlock:
    if arm not in ARMS or not -math.inf < float(begin) < float(end) < math.inf:
        raise ValueError(f"no block: {begin}, {end}, {arm}")
    return TurnBlock(begin=float(begin), end=float(end), arm=arm, pair=int(pair))


def drawn_blocks(
    begin: float, days: int, hours: Sequence[int], seed: int, day: float = DAY
) -> tuple[TurnBlock, ...]:
    """Blocks of an experiment; lengths are drawn for each two days, and a coin for each pair.

    The days are an even number, at most; the lengths to draw from are hours of BLOCK_HOURS. Where
    time is compressed a day has fewer seconds.

    Raises:
        ConfigurationError: no such lengths, or less than two days.
    """
    check_hours(hours)
    if days < 2:
        raise ConfigurationError(f"{days} days: an experiment lasts 2 at least.")
    rng, found = np.random.default_rng(seed), list[TurnBlock]()
    pair = 0
    for first in range(0, days - days % 2, 2):
        length = min(hours) if first < _CAREFUL_DAYS else int(rng.choice(sorted(hours)))
        count = 24 // length
        ours_first = rng.integers(2, size=count).astype(np.bool_)
        for later in (False, True):
            for place in range(count):
                at = begin + (first + later) * day + place * day / count
                arm = OURS if ours_first[place] != later else SITE
                block = TurnBlock(begin=at, end=at + day / count, arm=arm, pair=pair + place)
                if found:  # the exact end: sums of thirds of a day are not
                    found[-1] = replace(found[-1], end=at)
                found.append(block)
        pair += count
    return tuple(found)


def check_hours(hours: Sequence[int]) -> None:
    """Refuse lengths of blocks that do not fill days."""
    if not hours or any(each not in BLOCK_HOURS for each in hours):
        raise ConfigurationError(
            f"blocks of {', '.join(map(str, hours))} hours: give of "
            f"{', '.join(map(str, BLOCK_HOURS))}, which days are whole blocks of."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The pairs of an experiment whose both blocks are over."""

    first: IntArray  #: place of the first block of each, shape [n]
    second: IntArray  #: of the second, shape [n]
    ours_first: BoolArray  #: whether ours held the first, shape [n]

    @classmethod
    def closed(cls, declared: Declaration, blocks: int) -> Pairs:
        """In the order in which they were over."""
        first: dict[int, int] = {}
        rows = []
        for place, block in enumerate(declared.blocks[:blocks]):
            if block.pair in first:
                rows.append((first[block.pair], place))
            else:
                first[block.pair] = place
        found = np.array(rows, dtype=np.int64).reshape(-1, 2)
        ours = [declared.blocks[place].arm == OURS for place in found[:, 0].tolist()]
        first_places, second_places = found.T
        return cls(first=first_places, second=second_places, ours_first=np.array(ours, np.bool_))

    def ours_less_site(self, figure: FloatArray) -> FloatArray:
        """A figure of each block under ours less that under the site's order, of pairs, [n]."""
        difference = figure[self.first] - figure[self.second]
        return np.asarray(np.where(self.ours_first, difference, -difference))
