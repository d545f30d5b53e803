"""What is wrong with a part, in words."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ilyama_resources.embedded import locks
from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.ports import LOOPBACK
from ilyama_resources.embedded.server import Endpoint
from ilyama_resources.settings import Settings
from ilyama_service.stack import health

FULL = (
    "takes no messages: its disk has less than 1,099,511,627,776 MiB "
    "(ILYAMA_BROKER_MIN_DISK_FREE) left"
)


@pytest.fixture
def port() -> Iterator[int]:
    """Where something listens."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("min_disk_free", "told"),
    [(1, None), (2**60, FULL)],
    ids=["with room", "without room"],
)
def test_a_broker_on_a_full_disk_is_not_healthy(
    tmp_path: Path, port: int, min_disk_free: int, told: str | None
) -> None:
    settings = Settings(home=tmp_path, broker_min_disk_free=min_disk_free)
    settings.make_directories()
    settings.broker_dir.mkdir()
    server = EmbeddedBroker(settings)
    with locks.exclusive(server.keeper_lock):
        server.announce(Endpoint(url="mqtt://broker", port=port, pid=1))
        problem = health.broker(settings)
    assert problem == told
