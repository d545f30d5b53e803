from collections.abc import Iterator
from pathlib import Path

import pytest

from ilyama_resources.embedded.broker_server import EmbeddedBroker, broker_in_use
from ilyama_resources.embedded.ports import LOOPBACK, free_port
from ilyama_resources.embedded.server import EmbeddedServerError
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.settings import Settings
from tests.waiting import eventually


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    server = EmbeddedBroker(Settings(home=tmp_path / "home", broker_port=free_port()))
    yield server
    assert eventually(lambda: server.endpoint() is None)


def test_a_configured_broker_is_used_as_it_is(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", broker_url="mqtts://u:p@broker:8883")
    with broker_in_use(settings) as url:
        assert url == "mqtts://u:p@broker:8883"
    assert not settings.home.exists()


def test_it_listens_where_it_was_told_and_says_with_which_password(server: EmbeddedBroker) -> None:
    with server.in_use() as url:
        assert url.startswith("mqtt://ilyama:")
        assert url.endswith(f"@{LOOPBACK}:{server.settings.broker_port}")


def test_a_port_in_use_is_named_with_its_setting(server: EmbeddedBroker, tmp_path: Path) -> None:
    port = server.settings.broker_port
    second = EmbeddedBroker(Settings(home=tmp_path / "other", broker_port=port))
    sentence = rf"Port {port} is in use: set ILYAMA_BROKER_PORT to a free one\."
    with server.in_use(), pytest.raises(EmbeddedServerError, match=sentence):
        second.in_use().__enter__()


def test_what_comes_before_the_platform_first_listens_is_kept(server: EmbeddedBroker) -> None:
    with server.in_use() as url:
        address = BrokerAddress.of(url, server.settings)
        with MqttClient(address, "eager-device") as device:
            device.publish("acme/eager/sync/rows/batch", b"{}").result(timeout=20)
        with MqttSubscriber(server.settings, url, None).session() as session:
            report = session.land_for(20, lambda report: report.messages > 0)
        assert report.messages == 1
