"""Runs a target under atheris, which keeps inputs that reach new code and mutates them.

    python -m tests.bench.fuzz.coverage_guided TARGET CORPUS_FOLDER -runs=20000 -seed=1

Arguments after the folder are libFuzzer's. A failing input is written next to the folder, and the
run ends.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["slurm_rl_plugin", "prometheus_client", "cheroot"]):
    from tests.bench.fuzz.targets import TARGETS, quiet

#: Time-out in seconds, memory in megabytes, longest input.
_BOUNDS = ["-timeout=30", "-rss_limit_mb=6000", "-max_len=65536"]


def main() -> None:
    name, corpus, *flags = sys.argv[1:]
    quiet()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        target = TARGETS[name].build(folder)
        Path(corpus).mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate([*TARGETS[name].seeds(folder), *TARGETS[name].kept_inputs()]):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        words = [sys.argv[0], corpus, f"-artifact_prefix={corpus}/../", *_BOUNDS, *flags]
        atheris.Setup(words, lambda content: target(content, folder) and None)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
