"""Tries a model out in a child before this process loads it: one decision, bounded.

A graph may hold a loop of 2^62 rounds or a tensor of 40 GB, and onnxruntime bounds neither time nor
memory. The child runs as this process's user, and ends with it or after the time.
"""

from __future__ import annotations

import hashlib
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from slurm_rl_plugin.batch_systems.command_process import (
    TooMuchPrinted,
    end,
    exchange,
    last_line,
    start_python,
)
from slurm_rl_plugin.errors import ModelSchemaMismatch, ModelUnreadable, PolicyError
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.site_utilities import is_site_utility, published_utilities
from slurm_rl_plugin.services.drawn_queue import random_snapshot
from slurm_rl_plugin.whole_file import read_whole

#: Seconds from the start of the child to its decision; an idle host takes one.
SECONDS = 20.0
#: Seconds after which a model that was refused is tried again.
_KEPT = 60.0
#: Bytes of memory that the child may have; a shipped model takes 140 MB with its libraries, and
#: the offer service has 512 MB.
MEMORY = 1 << 29
#: Bytes that the child may print.
_LONGEST = 1 << 20
#: Pending jobs of the decision.
_JOBS = 10
_KINDS = {each.__name__: each for each in (ModelUnreadable, ModelSchemaMismatch)}
#: By the contents of models that can be used, or cannot: until when, and why.
_tried: dict[str, tuple[float, PolicyError | None]] = {}


def try_out(path: Path) -> None:
    """Refuse a model that cannot be loaded, or does not decide in time.

    Each content is tried once; one that was refused is tried again after a minute. A file that
    cannot be read is left to `load_q_network`, which says why.
    """
    try:
        digest = hashlib.sha256(read_whole(path)).hexdigest()
    except OSError:
        return
    until, fault = _tried.get(digest, (0.0, None))
    if time.monotonic() >= until:
        until, fault = math.inf, None
        try:
            _run(path)
        except PolicyError as error:
            until, fault = time.monotonic() + _KEPT, error
        _tried[digest] = until, fault
    if fault is not None:
        raise fault


def forget_refusals() -> None:
    """Let `try_out` try refused models at once: what refused them may be mended."""
    for digest in [digest for digest, (_, fault) in _tried.items() if fault is not None]:
        del _tried[digest]


def _run(path: Path) -> None:
    try:
        child = start_python(
            ["-m", __name__, str(path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise PolicyError(f"model {path} cannot be tried out ({error.strerror})") from None
    try:
        output, errors = exchange(child, b"", SECONDS, _LONGEST)
    except subprocess.TimeoutExpired:
        raise PolicyError(
            f"model {path} gave no decision on {_JOBS} jobs within {SECONDS:g} s: retrain it, or "
            "name a rule in [policy] model."
        ) from None
    except TooMuchPrinted:
        raise PolicyError(f"model {path} prints without an end: retrain it.") from None
    finally:
        if child.returncode is None:
            end(child)
    if child.returncode == 0:
        return
    try:
        fault = json.loads(output)
    except ValueError:
        said = last_line(errors.decode(errors="replace"), f"exit status {child.returncode}")
        fault = {"words": f"model {path} failed in a trial on {_JOBS} jobs ({said}): retrain it."}
    raise _KINDS.get(fault.get("kind"), PolicyError)(fault["words"])


def _decide(path: Path) -> None:
    """What the child does."""
    # the processor time counts if the parent has ended
    for bound, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_CPU, int(SECONDS))):
        _, hard = resource.getrlimit(bound)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(bound, (least, hard))
    network = load_q_network(path)
    snapshot = random_snapshot(_JOBS, np.random.default_rng(1))
    if is_site_utility(network):
        published_utilities(network, snapshot, site="trial")
        return
    decision = network.decide(snapshot)
    if decision.run_times is not None:
        decision.run_times()


def main() -> int:
    """Exit code 0, or what is wrong with the model as JSON."""
    try:
        _decide(Path(sys.argv[1]))
    except PolicyError as error:
        sys.stdout.write(json.dumps({"kind": type(error).__name__, "words": str(error)}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
