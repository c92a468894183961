"""What all tests share: hypothesis does not judge how fast the machine is."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.in_process import run_fakes_in_process
from tests.functional.typed import Typed

settings.register_profile(
    "loaded machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("loaded machine")
run_fakes_in_process()


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Runs a verb without a configuration."""
    return Typed(capsys)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake libpbs."""
    from tests.fakes.fake_pbs_cluster import fake_libpbs  # noqa: PLC0415 - few tests need it

    return fake_libpbs(tmp_path_factory.mktemp("libpbs"))
