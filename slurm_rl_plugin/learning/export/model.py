"""A trained network as an ONNX file, and back, whichever kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slurm_rl_plugin.learning.export.echo_state import echo_state_of, export_echo_state
from slurm_rl_plugin.learning.export.network import export_network, network_of
from slurm_rl_plugin.learning.export.onnx_file import read_onnx
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork


def export_model(
    network: QNetwork | EchoStateNetwork, path: Path, metadata: Mapping[str, str]
) -> None:
    """Write a network and its metadata; beside first, then renamed."""
    if isinstance(network, EchoStateNetwork):
        export_echo_state(network, path, metadata)
    else:
        export_network(network, path, metadata)


def import_model(path: Path) -> QNetwork | EchoStateNetwork:
    """Read back a network that `export_model` wrote, for the compiled simulator.

    Raises:
        ModelUnreadable: missing, no ONNX model, or not a graph of this package.
        ModelSchemaMismatch: made for features that this release does not compute.
    """
    file = read_onnx(path)
    return echo_state_of(file) if "memory_size" in file.metadata else network_of(file)
