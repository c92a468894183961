"""The program that searches weights of resources on drawn machines, on a small log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.networks.several_resources import LEARNED, RULES, main
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.features.site import RESOURCE_FEATURES, SCARCE_SHARE, SITE
from slurm_rl_plugin.learning.export.network import import_network
from slurm_rl_plugin.policies.network import with_resources
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.simulator.workloads.generators import generated_log


@pytest.mark.study
def test_a_search_tells_its_weights_and_what_they_are_worth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, model = tmp_path / "small.swf", tmp_path / "learned.onnx"
    write_swf(log, generated_log("mmn:jobs=18000,processors=40"), comments=["MaxProcs: 40"])
    few = ["--machines", "1", "--generations", "1", "--runs", "2"]
    main([str(log), "-o", str(model), *few])
    told = json.loads(capsys.readouterr().out)
    assert set(told["weights"]) == {*RESOURCE_FEATURES, SCARCE_SHARE}
    network = with_resources(import_network(model))
    for name, weight in told["weights"].items():
        assert weight == pytest.approx(network.linear[SITE.jobs.index(name)])
    assert set(told[f"{LEARNED}_over"]) == {SHIPPED_MODEL, *RULES}
    assert len(told["curve"]) == 2
