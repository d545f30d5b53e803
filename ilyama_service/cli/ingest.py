"""`ilyama ingest`: a process of its own that lands what devices publish."""

import logging
import signal
import threading
from contextlib import closing
from types import FrameType

from ilyama_resources.embedded.broker_server import broker_in_use
from ilyama_resources.embedded.postgres_server import postgres_in_use
from ilyama_resources.errors import PlatformError
from ilyama_resources.landing.directory import Landing
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Ingest, load_settings, variable
from ilyama_service.cli.consoles import console


class IngestElsewhere(PlatformError):
    """The settings say that the sensor lands messages."""


def land_messages() -> None:
    """Land what comes until Ctrl-C or SIGTERM; whatever goes wrong meanwhile is waited out."""
    settings = load_settings()
    if settings.ingest is not Ingest.PROCESS:
        name = variable("ingest")
        raise IngestElsewhere(f"the Dagster sensor lands messages: set {name}=process first.")
    settings.make_directories()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stopped = _stop_signals()
    with (
        postgres_in_use(settings) as postgres_url,
        broker_in_use(settings) as broker_url,
        closing(Gateway(postgres_url)) as gateway,
        MqttSubscriber(settings, broker_url, gateway).session() as session,
    ):
        gateway.migrate()
        Landing(settings.landing).register_found(gateway)
        console.print("Landing what devices publish; Ctrl-C ends it.")
        report = session.land_until(stopped.is_set)
    console.print(
        f"Landed {report.messages:,} messages in {report.segments:,} segments; "
        f"memory was at most {report.fullest:.0%} full."
    )


def _stop_signals() -> threading.Event:
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return stopped
