"""What a job that is not submitted may ask for: numbers within bounds, however long they are."""

from __future__ import annotations

import json

import pytest

from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.forecasts.live.asked_queue import AskedJob


@pytest.mark.parametrize("text", ["1" + "0" * 400, "-1" + "0" * 400, "1e999", "NaN", "true", '"4"'])
@pytest.mark.parametrize("name", ["processors", "nodes", "time_limit", "memory", "gpus"])
def test_what_is_no_number_within_bounds_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(RequestRefused, match=rf"^{name} is no number from") as refused:
        AskedJob.of_document(json.loads(f'{{"{name}": {text}}}'))
    assert refused.value.status.startswith("400")
