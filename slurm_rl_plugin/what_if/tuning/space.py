"""What of slurm.conf is searched: weights of priorities and parameters of backfill, as numbers.

Each setting is a number between 0 and 1 to the search, and words of slurm.conf to everybody else.
Numbers are rounded to two digits: more would claim more than a log shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray

#: Below this part of its range a setting that may be off is off.
_OFF = 0.1
_YES, _NO = "YES", "NO"
SIZE_OVER_TIME = "SMALL_RELATIVE_TO_TIME"
_SIZE = "PriorityWeightJobSize"
#: Size over minutes is so much smaller than size.
_OVER_TIME = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedSetting:
    """One key of slurm.conf, or one of its SchedulerParameters."""

    key: str
    least: float  #: of its values, > 0; searched by their logarithms
    most: float  #: of its values, > 0; searched by their logarithms
    now: float  #: its value on the cluster as it is, in the key's units
    can_be_off: bool = False  #: 0 is a value too
    unit: float = 1.0  #: seconds that one of the key's units is

    @property
    def is_parameter(self) -> bool:
        """It is set in SchedulerParameters."""
        return self.key.islower()

    def value(self, place: float) -> float:
        """The value of a number between 0 and 1, two digits of it."""
        low = _OFF if self.can_be_off else 0.0
        if self.can_be_off and place < low:
            return 0.0
        part = (min(max(place, low), 1.0) - low) / (1.0 - low)
        value = self.least * (self.most / self.least) ** part
        unit = 10.0 ** (math.floor(math.log10(value)) - 1)
        return float(max(round(value / unit), 1) * unit)

    def place(self, value: float) -> float:
        """The number that has a value, or one near to it."""
        if value <= 0.0:
            return 0.0
        low = _OFF if self.can_be_off else 0.0
        inside = min(max(value, self.least), self.most)
        part = math.log(inside / self.least) / math.log(self.most / self.least)
        return low + (1.0 - low) * part


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSpace:
    """All settings that are searched, and two words of theirs."""

    settings: tuple[TunedSetting, ...]  #: numbers
    favours_small: bool  #: PriorityFavorSmall and SMALL_RELATIVE_TO_TIME as they are now
    over_time: bool  #: PriorityFavorSmall and SMALL_RELATIVE_TO_TIME as they are now
    flags: tuple[str, ...]  #: other words of PriorityFlags, which stay

    @property
    def size(self) -> int:
        """How many numbers a point has."""
        return len(self.settings) + 2

    @property
    def start(self) -> FloatArray:
        """The point of the cluster as it is, or one near to it; shape [size]."""
        numbers = [each.place(each.now) for each in self.settings]
        words = [0.75 if word else 0.25 for word in (self.favours_small, self.over_time)]
        return np.array([*numbers, *words])

    def changes(self, point: FloatArray) -> dict[str, str]:
        """Key -> value of each setting that a point changes."""
        found: dict[str, str] = {}
        *numbers, small, over_time = point.tolist()
        is_over_time = over_time > 0.5
        for setting, number in zip(self.settings, numbers, strict=True):
            value = setting.value(number)
            same = value == setting.value(setting.place(setting.now))
            if setting.key == _SIZE and is_over_time:
                value *= _OVER_TIME
            if not same or (setting.key == _SIZE and value and is_over_time != self.over_time):
                found[setting.key] = _text(setting, value)
        if (small > 0.5) != self.favours_small:
            found["PriorityFavorSmall"] = _YES if small > 0.5 else _NO
        if is_over_time != self.over_time:
            words = [*self.flags, *([SIZE_OVER_TIME] if is_over_time else [])]
            found["PriorityFlags"] = ",".join(words) or "NONE"
        return found


def words_of(changes: Mapping[str, str]) -> str:
    """Changes as `machine_files.changes.changed` takes them; "" for none."""
    keys = [f"{key}={value}" for key, value in changes.items() if not key.islower()]
    parameters = [f"{key}={value}" for key, value in changes.items() if key.islower()]
    if parameters:
        keys.append(f"SchedulerParameters+={','.join(parameters)}")
    return " ".join(keys)


def space_of(machine: Machine) -> TuningSpace:
    """What can be searched on a machine: weights that decide between its jobs, and its backfill."""
    weights, passes = machine.weights, machine.backfill
    over_time = SIZE_OVER_TIME in weights.flags
    settings = [
        _weight("PriorityWeightAge", weights.age),
        _weight("PriorityWeightFairshare", weights.fairshare),
        _weight(_SIZE, weights.size / (_OVER_TIME if over_time else 1.0)),
    ]
    if len({each.priority_factor for each in machine.partitions}) > 1:
        settings.append(_weight("PriorityWeightPartition", weights.partition))
    if any(each.priority > 0 for each in machine.qos.values()):
        settings.append(_weight("PriorityWeightQOS", weights.qos))
    settings += [
        _span("PriorityMaxAge", HOUR, 90 * DAY, weights.highest_age),
        _span("PriorityDecayHalfLife", HOUR, 90 * DAY, min(weights.half_life, 90 * DAY)),
    ]
    if passes.backfills:  # within bounds that a slurmctld bears: what a pass costs is not simulated
        settings += [
            TunedSetting(key="bf_interval", least=15, most=300, now=passes.interval),
            _span("bf_window", DAY, 30 * DAY, passes.window),
            TunedSetting(key="bf_resolution", least=60, most=HOUR / 2, now=passes.resolution),
            TunedSetting(key="bf_max_job_test", least=100, most=1000, now=passes.most_jobs),
            TunedSetting(
                key="bf_max_job_user", least=3, most=500, can_be_off=True, now=passes.most_of_user
            ),
            TunedSetting(key="default_queue_depth", least=10, most=2000, now=passes.depth),
        ]
    words = sorted(weights.flags - {SIZE_OVER_TIME, "NONE"})
    return TuningSpace(
        settings=tuple(settings),
        favours_small=weights.favours_small,
        over_time=over_time,
        flags=tuple(words),
    )


def _span(key: str, least: float, most: float, now: float) -> TunedSetting:
    """A key in minutes, of seconds."""
    least, most, now = least / MINUTE, most / MINUTE, now / MINUTE
    return TunedSetting(key=key, least=least, most=most, now=now, unit=MINUTE)


def _weight(key: str, now: float) -> TunedSetting:
    return TunedSetting(key=key, least=10.0, most=1e6, can_be_off=True, now=now)


def _text(setting: TunedSetting, value: float) -> str:
    whole = round(value)
    if not setting.is_parameter and setting.unit == MINUTE:  # a span of slurm.conf: D-HH:MM:SS
        days, minutes = divmod(whole, round(DAY / MINUTE))
        return f"{days}-{minutes // 60:02}:{minutes % 60:02}:00"
    return str(whole)
