"""A limit on the batch class of a Slurm cluster: set, read back, and the site's own given back."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from slurm_rl_plugin.batch_systems.kind import LimitKeys
from slurm_rl_plugin.batch_systems.limit_file import Amounts, LimitFile, StandingLimit, lower
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.reasons import NO_LICENSES, QOS_IS_FULL
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_settings
from slurm_rl_plugin.batch_systems.slurm.batch_limit.licenses import LICENSES, LicenseLimit
from slurm_rl_plugin.batch_systems.slurm.batch_limit.qos import QOS, QosLimit
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.domain.resources import CPUS
from slurm_rl_plugin.errors import (
    BatchSystemUnavailable,
    ChangeRejected,
    ConfigurationError,
    NothingCarriesLimit,
)

logger = logging.getLogger(__name__)
#: slurmdbd tells slurmctld of a change; observed within 0.1 s.
_SHOWN_WITHIN, _PAUSE = 3.0, 0.05
#: A change that a killed daemon had begun is done within 0.4 s; it is waited for before the last
#: look at what is stored.
_SETTLES, _RESTORE_TRIES = 1.0, 4


class LimitCarrier(Protocol):
    """What of Slurm's carries a limit on what batch jobs may use together."""

    @property
    def mechanism(self) -> str:
        """The word for it in [reserve] mechanism, `qos` or `licenses`."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """What it is called: the QOS, or the licence and the reservation."""
        ...

    @property
    def resources(self) -> tuple[str, ...]:
        """What it limits, of BASIC_RESOURCES; every limit is in this order."""
        ...

    def live(self) -> Amounts:
        """The limit that slurmctld enforces now.

        Raises:
            BatchSystemError: it cannot be read.
            ChangeRejected: there is nothing that could carry a limit.
        """
        ...

    def stored(self) -> Amounts:
        """The limit that a restart of slurmctld would find; raises as `live` does."""
        ...

    def write(self, limit: Amounts) -> None:
        """Set the limit; where it has None there is none afterwards.

        Raises:
            BatchSystemUnavailable: no answer in time; it may be either.
            ChangeRejected: the right is missing.
        """
        ...

    def site_own(self, found: Amounts) -> Amounts:
        """Which part of a limit that was there before us is the site's own."""
        ...

    def as_carried(self, limit: Amounts) -> Amounts:
        """What it would show for this limit."""
        ...


class SlurmBatchLimit:
    """Sets and takes back the limit, and remembers in a file what was there before.

    Args:
        commands: runs Slurm's commands.
        limit: what carries it; without a mechanism of Slurm's nothing is limited, and what still
            stands is taken back.
        path: of the file; None limits nothing.
    """

    def __init__(self, commands: CommandRunner, limit: LimitKeys, path: Path | None) -> None:
        self._commands = commands
        self._limit = limit
        self._file = LimitFile(path)
        #: Mechanism and names of every limit that may be ours, also while the mechanism is off.
        self._configured = (
            frozenset((each, names_of(limit, each)) for each in (QOS, LICENSES))
            if limit.is_known
            else None
        )

    def go_on_from(self, earlier: SlurmBatchLimit) -> None:
        """What was ours to set before a reload is ours to take back after it."""
        if self._configured is not None and earlier._configured is not None:
            self._configured |= earlier._configured

    def set(self, amounts: Mapping[str, int]) -> None:
        """Let batch jobs use no more than this; a lower limit of the site's own stays.

        Args:
            amounts: by resource, of those that the configuration names.

        Raises:
            BatchSystemUnavailable: no answer in time; the limit may be either.
            ChangeRejected: the right is missing, or there is nothing to carry a limit.
            BatchSystemError: an answer that cannot be understood.
            ConfigurationError: the site's own limit cannot be remembered; nothing was limited.
        """
        carrier = self._carrier()
        asked = tuple(amounts.get(name) for name in carrier.resources)
        standing = self._file.read()
        if standing is not None and not _is_of(standing, carrier):
            self.take_back()
            standing = None
        live = carrier.live()
        if _stands_already(asked, standing, carrier, live):
            return  # the common case: one cheap question
        self._refuse_without_enforcement(carrier)
        ours_shows = standing is not None and live in standing.ours
        stored = live if ours_shows else carrier.stored()
        standing = _after_changes_by_hand(standing, carrier, stored)
        wanted = carrier.as_carried(lower(asked, standing.own))
        if wanted == standing.own:
            self._restore(carrier, standing)
            return
        self._file.write(replace(standing, ours=standing.ours | {wanted}, confirmed=False))
        try:
            carrier.write(wanted)
        except ChangeRejected:  # as before, or nothing of ours
            self._file.write(standing) if standing.ours else self._file.remove()
            raise
        _wait_until_shown(carrier, wanted)
        self._file.write(replace(standing, ours=frozenset({wanted}), confirmed=True))
        said = limit_words(carrier.resources, wanted), limit_words(carrier.resources, standing.own)
        logger.info("batch_limit=%s own=%s by=%s", *said, carrier.mechanism)

    def take_back(self) -> None:
        """Give the site's own limit back, whatever the configuration says now.

        Raises:
            BatchSystemUnavailable: no answer in time; call again.
            BatchSystemError: an answer that cannot be understood.
            ChangeRejected: the right is missing.
            ConfigurationError: the file is broken, or names what the site never gave us.
        """
        standing = self._file.read()
        if standing is not None:
            self._refuse_strangers(standing)
            kept = standing.mechanism, standing.names, standing.resources
            carrier = carrier_of(self._commands, *kept)
            try:
                stored = carrier.stored()
            except NothingCarriesLimit:
                self._forget_with(carrier)
            else:
                self._restore(carrier, _after_changes_by_hand(standing, carrier, stored))

    def _refuse_strangers(self, standing: StandingLimit) -> None:
        """Refuse a file with other names: who writes it must not choose what Slurm is told."""
        named = (standing.mechanism, standing.names)
        if self._configured is not None and named not in self._configured:
            what = " ".join(standing.names)
            key = "qos" if standing.mechanism == QOS else "license and reservation"
            raise ConfigurationError(
                f"{self._file.path} names {what}, which is not what [reserve] {key} names, so "
                f"nothing was changed: if the daemon limited {what}, name it there (mechanism may "
                "stay off) and run `slurm-rl release`, else remove the file."
            )

    def _forget_with(self, carrier: LimitCarrier) -> None:
        """Remove the file, where the site has removed what carried our limit."""
        with suppress(NothingCarriesLimit):
            carrier.live()
            raise BatchSystemUnavailable(
                f"slurmctld goes by {' '.join(carrier.names)}, which slurmdbd does not have; check "
                "slurmdbd"
            )
        self._file.remove()
        logger.warning("batch_limit=gone with=%s", " ".join(carrier.names))

    def _restore(self, carrier: LimitCarrier, standing: StandingLimit) -> None:
        """Write what was there before, until it is stored and slurmctld enforces it."""
        for attempt in range(_RESTORE_TRIES):
            if attempt and not standing.confirmed:
                time.sleep(_SETTLES)  # a command of a daemon that was killed may still be at work
            if carrier.stored() != standing.own:
                carrier.write(standing.own)
            elif attempt or standing.confirmed:
                break
        if not _is_shown(carrier, standing.own):
            carrier.write(standing.own)  # slurmctld was not told
            _wait_until_shown(carrier, standing.own)
        self._file.remove()
        own = limit_words(carrier.resources, standing.own)
        logger.info("batch_limit=taken_back own=%s by=%s", own, carrier.mechanism)

    def _refuse_without_enforcement(self, carrier: LimitCarrier) -> None:
        unlimited = parse_settings(self._commands.read(SHOW_CONFIG)).unlimited
        if carrier.mechanism == QOS and unlimited is not None:
            self.take_back()
            raise ChangeRejected(unlimited)

    def _carrier(self) -> LimitCarrier:
        mechanism = self._limit.mechanism
        if mechanism not in (QOS, LICENSES):
            raise ChangeRejected(
                'Slurm limits batch jobs by a QOS or by licences: set [reserve] mechanism = "qos" '
                'or "licenses"'
            )
        return carrier_as_configured(self._commands, self._limit)


def names_of(limit: LimitKeys, mechanism: str) -> tuple[str, ...]:
    """Names of what carries the limit: the QOS, or the licence and the reservation."""
    return (limit.qos,) if mechanism == QOS else (limit.license, limit.reservation)


def keeps_back(limit: LimitKeys, row: QueueRow) -> bool:
    """Whether a job may wait for this limit; whose licences it lacks Slurm does not say."""
    if limit.mechanism == QOS:
        return row.reason in QOS_IS_FULL and row.qos == limit.qos
    return limit.mechanism == LICENSES and row.reason == NO_LICENSES


def carrier_as_configured(commands: CommandRunner, limit: LimitKeys) -> LimitCarrier:
    """What the configuration names to carry a limit; raises as `carrier_of` does."""
    names = names_of(limit, limit.mechanism or "")
    return carrier_of(commands, limit.mechanism or "", names, (CPUS, *limit.resources))


def carrier_of(
    commands: CommandRunner, mechanism: str, names: tuple[str, ...], resources: tuple[str, ...]
) -> LimitCarrier:
    """The QOS or the licences of these names, which carry a limit of these resources.

    Raises:
        ConfigurationError: nothing of Slurm's is; the file of another batch system.
    """
    if mechanism == QOS and len(names) == 1:
        return QosLimit(commands, *names, resources=resources)
    if mechanism == LICENSES and len(names) == 2 and resources == (CPUS,):
        return LicenseLimit(commands, *names)
    raise ConfigurationError(
        f"the site's own limit is kept for mechanism {mechanism!r}, which is not Slurm's: take it "
        "back with the configuration that it was set with."
    )


def limit_words(resources: tuple[str, ...], amounts: Amounts) -> str:
    """A limit for one line: of processors the number alone, as `5` or `5,gpus=2`."""
    named = zip(resources, amounts, strict=True)
    return ",".join(str(each) if name == CPUS else f"{name}={each}" for name, each in named)


def _is_of(standing: StandingLimit, carrier: LimitCarrier) -> bool:
    kept = (standing.mechanism, standing.names, standing.resources)
    return kept == (carrier.mechanism, carrier.names, carrier.resources)


def _stands_already(
    asked: Amounts, standing: StandingLimit | None, carrier: LimitCarrier, live: Amounts
) -> bool:
    """Whether slurmctld enforces our limit of now, or the site's own is as low and all there is."""
    if standing is None:
        own = carrier.site_own(live)
        return lower(asked, own) == own
    return live == lower(asked, standing.own) and live in standing.ours


def _after_changes_by_hand(
    standing: StandingLimit | None, carrier: LimitCarrier, stored: Amounts
) -> StandingLimit:
    """What to keep as the site's own: a limit that is neither ours nor the one of before."""
    if standing is None:
        return StandingLimit(
            mechanism=carrier.mechanism,
            names=carrier.names,
            resources=carrier.resources,
            own=carrier.site_own(stored),
            confirmed=True,  # nothing of ours is under way
        )
    if stored == standing.own or stored in standing.ours:
        return standing
    found = limit_words(carrier.resources, stored)
    logger.warning("batch_limit=%s was set by hand: it is the site's own from now on", found)
    return replace(standing, own=carrier.site_own(stored), ours=frozenset())


def _wait_until_shown(carrier: LimitCarrier, wanted: Amounts) -> None:
    """Wait until slurmctld shows the limit.

    Raises:
        BatchSystemUnavailable: it does not in time.
    """
    if not _is_shown(carrier, wanted):
        raise BatchSystemUnavailable(
            f"slurmctld does not show the limit {limit_words(carrier.resources, wanted)} within "
            f"{_SHOWN_WITHIN:g} s; "
            "check slurmdbd and slurmctld"
        )


def _is_shown(carrier: LimitCarrier, wanted: Amounts) -> bool:
    end = time.monotonic() + _SHOWN_WITHIN
    while carrier.live() != wanted:
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE)
    return True
