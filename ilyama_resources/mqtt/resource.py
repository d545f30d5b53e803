"""The broker as a Dagster resource."""

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import ConfigurableResource

from ilyama_resources.embedded.broker_server import EmbeddedBroker, broker_in_use
from ilyama_resources.mqtt.errors import BrokerUnavailable
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings, load_settings


class Broker(ConfigurableResource):  # type: ignore[type-arg]
    """The broker that devices publish to: the configured one, or the embedded one."""

    @contextmanager
    def subscriber(self, gateway: Gateway) -> Iterator[MqttSubscriber]:
        """The platform's subscriber, which lands what devices publish.

        Raises:
            BrokerUnavailable: a stack runs, and its broker has not started yet.
        """
        settings = load_settings()
        _require_started(settings)
        with broker_in_use(settings) as url:
            yield MqttSubscriber(settings, url, gateway)


def _require_started(settings: Settings) -> None:
    """A tick is cut off after a minute, and its request for a run with it: it must not wait."""
    if settings.broker_url is None and EmbeddedBroker(settings).is_missing_in_stack():
        raise BrokerUnavailable("The broker has not started yet; see `ilyama logs broker`.")
