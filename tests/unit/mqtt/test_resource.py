from pathlib import Path
from typing import cast

import pytest

from ilyama_resources.embedded import locks
from ilyama_resources.embedded.server import stack_lock
from ilyama_resources.mqtt.errors import BrokerUnavailable
from ilyama_resources.mqtt.resource import Broker
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import load_settings


def test_a_tick_does_not_wait_for_the_broker_of_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ILYAMA_HOME", str(tmp_path))
    settings = load_settings()
    settings.make_directories()
    subscriber = Broker().subscriber(cast(Gateway, None))
    with (
        locks.exclusive(stack_lock(settings)),
        pytest.raises(BrokerUnavailable, match="ilyama logs broker"),
        subscriber,
    ):
        pass
