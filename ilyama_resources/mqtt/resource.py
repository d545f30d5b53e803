"""The broker as a Dagster resource."""

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import ConfigurableResource

from ilyama_resources.embedded.broker_server import broker_in_use
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import load_settings


class Broker(ConfigurableResource):  # type: ignore[type-arg]
    """The broker that devices publish to: the configured one, or the embedded one."""

    @contextmanager
    def subscriber(self, gateway: Gateway) -> Iterator[MqttSubscriber]:
        """The platform's subscriber, which lands what devices publish."""
        settings = load_settings()
        with broker_in_use(settings) as url:
            yield MqttSubscriber(settings, url, gateway)
