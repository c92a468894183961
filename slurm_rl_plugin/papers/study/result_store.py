"""The store of results: networks that a study trains and figures that it measures, in files.

An interrupted run continues, and a second run repeats nothing. The name of a file has a digest of
the code, the settings and the inputs of its result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba

from slurm_rl_plugin import __version__
from slurm_rl_plugin.learning.algorithms import Settings, steps_of, train_policy
from slurm_rl_plugin.learning.checkpoint import digest_of
from slurm_rl_plugin.learning.onnx_file import export_model, import_model
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.kept_code import closure_digest
from slurm_rl_plugin.whole_file import write_whole

LearnedNetwork = QNetwork | EchoStateNetwork
#: Training loads and validation loads.
Loads = tuple[Sequence[TrainingLoad], Sequence[TrainingLoad]]
#: [step, objective on the training loads, objective on the validation loads].
Curve = Sequence[tuple[int, float, float]]


def stem_of(name: str, *key: Any, module: str) -> str:
    """Name of a result's file without its ending, different for each result.

    Args:
        key: the inputs: settings, texts, arrays; the code is added.
        module: the module that computes the result; its source and its imports are in the digest.
    """
    code = (__version__, numba.__version__, closure_digest(module))
    return f"{name}-{digest_of(code, key)[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningTask:
    """A training: its loads and settings."""

    name: str  #: of the experiment, for the file
    settings: Settings
    sources: Sequence[str]  #: describe the loads
    loads: Callable[[], Loads]  #: makes them; called only without a file
    start: QNetwork | None = None  #: a network to start from

    @property
    def steps(self) -> int:
        """Number of progress reports of the trainer."""
        return steps_of(self.settings)

    @property
    def stem(self) -> str:
        """Name and digest of code, settings and loads."""
        module = type(self.settings).__module__
        return stem_of(self.name, self.settings, self.sources, module=module)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A trained network and its learning curve."""

    network: LearnedNetwork
    curve: Curve

    @property
    def q_network(self) -> QNetwork:
        """The network of a trainer of feed-forward networks."""
        assert isinstance(self.network, QNetwork)
        return self.network


class ResultStore:
    """A folder of results: `<stem>.onnx` with its curve, and figures, as `<stem>.json`."""

    def __init__(self, folder: Path, add: Callable[[int], None] = lambda _: None) -> None:
        """Use a folder, which is made if needed; `add` reports progress."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.add = add

    def figures(self, stem: str, measure: Callable[[], Any]) -> Any:
        """The figures of an earlier run, or measured now."""
        path = self.folder / f"{stem}.json"
        if path.is_file():
            return json.loads(path.read_text())
        found = measure()
        write_whole(path, json.dumps(found), sync=False)
        return found

    def network(self, task: LearningTask) -> Learned:
        """The network of a task: from its file, or trained now.

        A trained network is read back from its file as well: weights are float32 there, and the
        first run must give the same figures as the second.
        """
        path = self.folder / f"{task.stem}.onnx"
        story = path.with_suffix(".json")
        if path.exists() and story.exists():
            self.add(task.steps)
        else:
            self._train(task, path, story)
        curve = [tuple(point) for point in json.loads(story.read_text())["curve"]]
        return Learned(network=import_model(path), curve=curve)

    def _train(self, task: LearningTask, path: Path, story: Path) -> None:
        training, validation = task.loads()
        checkpoint = path.with_name(path.name + ".checkpoint")
        trained = train_policy(
            *(training, validation, task.settings),
            checkpoint=checkpoint,
            load_key=task.stem,
            progress=lambda *_: self.add(1),
            start=task.start,
        )
        described = {"sources": list(task.sources), "curve": [list(p) for p in trained.curve]}
        export_model(trained.network, path, {"algorithm": task.name})
        write_whole(story, json.dumps(described, default=str) + "\n")
        checkpoint.unlink(missing_ok=True)
