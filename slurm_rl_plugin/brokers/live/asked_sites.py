"""Asks all sites at once, and waits for none of them longer than it may take."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_rl_plugin.brokers.live.forwarding import Forwarding
from slurm_rl_plugin.brokers.live.remote_site import RemoteSite
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.errors import SlurmRLError


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAnswer:
    """What came of asking one site; a `Site` for brokers that has answered already.

    Attributes:
        name: of the site.
        promised: its offer; None where it makes none.
        why_not: in words; "" where there is an offer.
    """

    name: str
    promised: SiteOffer | None = None
    why_not: str = ""

    def offer(self, request: JobRequest) -> SiteOffer | None:
        """The offer already received; `request` is the one that the site was asked about."""
        del request
        return self.promised


def ask_sites(
    sites: Sequence[RemoteSite],
    request: JobRequest,
    timeout: float,
    monotonic: Callable[[], float],
    *,
    forwarding: Forwarding | None = None,
    places: threading.Semaphore | None = None,
) -> list[SiteAnswer]:
    """What each site answers, in their order, then the offers of those that they asked.

    A site that lets every step of its answer take as long as it may is not waited for: its thread
    ends with the process.

    Args:
        sites: to be asked.
        request: of the job.
        timeout: seconds for all of it.
        monotonic: seconds.
        forwarding: how far the request may go from these sites; None for no further.
        places: a question takes one as long as it lasts, and is left out where none is free.
    """
    end = monotonic() + timeout
    heard: queue.SimpleQueue[tuple[str, list[SiteAnswer]]] = queue.SimpleQueue()
    asked = 0
    for site in sites:
        if places is None or places.acquire(blocking=False):
            words = (site, request, forwarding, heard, places)
            asks = threading.Thread(target=_ask, args=words, daemon=True)
            try:
                asks.start()
            except RuntimeError:  # no more threads: its question is left out
                if places is not None:
                    places.release()
                continue
            asked += 1
    found: dict[str, list[SiteAnswer]] = {}
    while len(found) < asked and (left := end - monotonic()) > 0.0:
        try:
            name, answers = heard.get(timeout=left)
        except queue.Empty:
            break
        found[name] = answers
    late = f"no answer in {timeout:g} s"
    merged: dict[str, SiteAnswer] = {}
    for site in sites:
        for answer in found.get(site.name) or [SiteAnswer(name=site.name, why_not=late)]:
            known = merged.get(answer.name)
            if known is None or known.promised is None or answer.name == site.name:
                merged[answer.name] = answer
    own = [merged.pop(each.name) for each in sites]
    return [*own, *merged.values()]


def _ask(
    site: RemoteSite,
    request: JobRequest,
    forwarding: Forwarding | None,
    heard: queue.SimpleQueue[tuple[str, list[SiteAnswer]]],
    places: threading.Semaphore | None,
) -> None:
    try:
        offers = site.answers(request, forwarding)
        answers = [SiteAnswer(name=each.site, promised=each) for each in offers]
        if offers[0].site != site.name:
            answers.append(SiteAnswer(name=site.name, why_not="makes no offer itself"))
    except SlurmRLError as error:
        answers = [SiteAnswer(name=site.name, why_not=str(error))]
    except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
        answers = [SiteAnswer(name=site.name, why_not=f"asking it failed: {error!r}")]
    finally:
        if places is not None:
            places.release()
    heard.put((site.name, answers))
