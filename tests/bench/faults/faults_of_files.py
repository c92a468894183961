"""Faults of the daemon's files: state, disk, model, inference library and configuration."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from slurm_rl_plugin.policies.q_network import load_q_network
from tests.architecture.markdown_documents import TOP
from tests.bench.faults.jobs_under_fault import site_factors_of_tasks
from tests.bench.faults.scene import FALLS_BACK, SHIPPED, UNWRITABLE, Fault, Scene, Sign

MODELS = TOP / "policy_models"
#: Size of the small disk, bytes.
_SIZE = 512 * 1024


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True, timeout=20)


@contextmanager
def _mounted(scene: Scene, *words: str) -> Iterator[None]:
    """Mounts something on the folder of the daemon's files while the daemon runs."""
    _mount(*words, str(scene.daemon.files))
    try:
        yield
    finally:
        scene.daemon.end()
        subprocess.run(["umount", "-l", str(scene.daemon.files)], check=True, timeout=20)


def _small_disk(scene: Scene):  # type: ignore[no-untyped-def]
    return _mounted(scene, "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs")


def _fill(scene: Scene) -> None:
    """Fills the disk to the last page."""
    with scene.daemon.files.joinpath("filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def _empty(scene: Scene) -> None:
    scene.daemon.files.joinpath("filler").unlink()


def _make_read_only(scene: Scene) -> None:
    """Mounts the folder on itself read-only, since the daemon has a file open there."""
    folder = str(scene.daemon.files)
    _mount("--bind", folder, folder)
    scene.stack.callback(_make_writable, scene)
    _mount("-o", "remount,bind,ro", folder)


def _make_writable(scene: Scene) -> None:
    """Also works if it is writable already."""
    words = ["umount", "-l", str(scene.daemon.files)]
    subprocess.run(words, check=False, capture_output=True, timeout=20)


def _truncate(part: float, scene: Scene) -> None:
    path = scene.daemon.files / "state.json"
    scene.cluster.wait_until(lambda: path.exists() and path.stat().st_size > 40, 30, "a state file")
    content = path.read_bytes()
    with path.open("r+b") as file:  # in place, as a broken disk would
        file.truncate(int(part * len(content)))


@contextmanager
def _own_model(scene: Scene) -> Iterator[None]:
    """A copy of the model that can be replaced."""
    shutil.copy(MODELS / "default.onnx", scene.daemon.folder / "model.onnx")
    yield


def _swap(content: bytes, scene: Scene) -> None:
    """Replaces the model and makes the running daemon reload, during a cycle."""
    reads = scene.daemon.folder / "reads"
    reads.unlink(missing_ok=True)
    squeue = scene.commands.real("squeue")
    scene.commands.replace("squeue", f'touch {reads}; sleep 0.4; exec {squeue} "$@"')
    scene.cluster.wait_until(reads.exists, 60, "a cycle")
    path = Path(scene.daemon.folder) / "model.onnx"
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)
    scene.daemon.hook.process.send_signal(signal.SIGHUP)
    scene.commands.mend()


def _damaged() -> bytes:
    content = bytearray((MODELS / "default.onnx").read_bytes())
    return bytes(content[: len(content) // 2])


def _other_schema() -> bytes:
    """The same network with the digest of another schema."""
    path = MODELS / "default.onnx"
    digest = load_q_network(path).card.metadata["schema_digest"].encode()
    return path.read_bytes().replace(digest, digest[::-1])


def _good_again(scene: Scene) -> None:
    if scene.daemon.runs:
        _swap((MODELS / "default.onnx").read_bytes(), scene)
    else:
        shutil.copy(MODELS / "default.onnx", scene.daemon.folder / "model.onnx")


def _start_with_damaged(scene: Scene) -> None:
    if scene.daemon.runs:
        scene.daemon.kill()
    (scene.daemon.folder / "model.onnx").write_bytes(_damaged())
    scene.daemon.start()


def _library(scene: Scene) -> Path:
    """Path of a library that hides the real one from the daemon."""
    return Path(scene.daemon.folder) / "libraries" / "onnxruntime"


@contextmanager
def _breakable_library(scene: Scene) -> Iterator[None]:
    shutil.copy(MODELS / "default.onnx", scene.daemon.folder / "model.onnx")
    _library(scene).parent.mkdir()
    with patch.dict(
        os.environ, PYTHONPATH=os.pathsep.join([str(_library(scene).parent), str(TOP)])
    ):
        yield


def _break_library(scene: Scene) -> None:
    """The daemon dies, its factors are released, and it starts again, all without the library."""
    _library(scene).mkdir(exist_ok=True)
    _library(scene).joinpath("__init__.py").write_text("raise ImportError('no such library')\n")
    if scene.daemon.runs:
        scene.daemon.kill()
    _release_after_kill(scene)
    scene.daemon.start()


def _mend_library(scene: Scene) -> None:
    shutil.rmtree(_library(scene))
    if scene.daemon.runs:
        scene.daemon.hook.process.send_signal(signal.SIGHUP)


def _break_configuration(scene: Scene) -> None:
    """A syntax error in the file, and the daemon dies; only the state file is left."""
    path = Path(scene.daemon.folder) / "slurm-rl.toml"
    path.write_text(path.read_text().replace("[hook]", "[hook", 1))
    scene.daemon.kill()
    scene.daemon.other_log.write_text(_release_after_kill(scene))


def _release_after_kill(scene: Scene) -> str:
    """Runs what systemd runs when a daemon has ended; returns its stderr."""
    done = scene.daemon.watchdog()
    assert done.returncode == 0, done.stderr
    left = [job for job, factor in site_factors_of_tasks(scene.cluster).items() if factor]
    assert not left, f"factors are left: {left}"
    return done.stderr


def start_again(scene: Scene) -> None:
    """Starts the daemon unless it runs."""
    if not scene.daemon.runs:
        scene.daemon.start()


def _sha256(model: str) -> str:
    return hashlib.sha256((MODELS / f"{model}.onnx").read_bytes()).hexdigest()


def _cut_state(name: str, part: float) -> Fault:
    """The state file keeps this part of its content."""
    return Fault(
        name=f"state file {name}",
        begin=lambda scene: _truncate(part, scene),
        sign=Sign('slurm_rl_disturbances_total{reason="state_file"}'),
        log="state=unreadable",
    )


def _of_model(name: str, begin: Callable[[Scene], None], sign: Sign, log: str) -> Fault:
    """A fault of the model of the shipped daemon."""
    return Fault(
        name=name,
        place=_own_model,
        program=SHIPPED,
        model="FOLDER/model.onnx",
        begin=begin,
        end=_good_again,
        sign=sign,
        log=log,
    )


def _swapped(name: str, content: Callable[[], bytes], sign: Sign, log: str) -> Fault:
    """The model is replaced while the daemon runs."""
    name = f"model swapped for {name}"
    return _of_model(name, lambda scene: _swap(content(), scene), sign, log)


_TAKEN = Sign("slurm_rl_model_info", labels=f'sha256="{_sha256("responsive-reserve")}"')
_REFUSED = Sign("slurm_rl_last_reload_successful", 0.0)
FAULTS_OF_FILES = (
    _cut_state("emptied", 0.0),
    _cut_state("cut in half", 0.5),
    Fault(
        name="disk full",
        place=_small_disk,
        begin=_fill,
        end=_empty,
        sign=UNWRITABLE,
        log="No space left on device",
    ),
    Fault(
        name="folder read-only",
        begin=_make_read_only,
        end=_make_writable,
        sign=UNWRITABLE,
        log="Read-only file system",
    ),
    _swapped(
        "another",
        (MODELS / "responsive-reserve.onnx").read_bytes,
        _TAKEN,
        "reload=done policy=model",
    ),
    _swapped("a damaged one", _damaged, _REFUSED, "reload=refused"),
    _swapped("one of another schema", _other_schema, _REFUSED, "reload=refused"),
    _of_model(
        "daemon started with a damaged model", _start_with_damaged, FALLS_BACK, "model=refused"
    ),
    Fault(
        name="onnxruntime cannot be loaded",
        place=_breakable_library,
        program=SHIPPED,
        model="FOLDER/model.onnx",
        begin=_break_library,
        end=_mend_library,
        sign=FALLS_BACK,
        log="onnxruntime cannot be loaded",
        slack=3.0,
    ),
    Fault(
        name="configuration broken and daemon killed",
        begin=_break_configuration,
        end=start_again,
        counts_end=True,
        sign=Sign(""),
        log="going by the state file",
        slack=3.0,
    ),
)
