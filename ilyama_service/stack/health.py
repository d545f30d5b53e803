"""Is a part healthy? Each is asked in its own language; the answer is nothing, or what is wrong."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

import psycopg2
from sqlalchemy.engine import make_url

from ilyama_resources.embedded import locks
from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.ports import LOOPBACK, accepts, seen_from_here
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.server import EmbeddedServer
from ilyama_resources.embedded.spark_server import EmbeddedSpark
from ilyama_resources.errors import PlatformError
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.probing import greet
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.settings import Settings, variable

_PATIENCE_S: Final = 5
_LOCATIONS: Final = """{ workspaceOrError { ... on Workspace { locationEntries {
    loadStatus locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
_DAEMONS: Final = """{ instance { daemonHealth { allDaemonStatuses {
    daemonType required healthy lastHeartbeatErrors { message } } } } }"""


def postgres(settings: Settings) -> str | None:
    """Ask for a connection."""
    address = settings.postgres_url
    if address is None:
        endpoint = EmbeddedPostgres(settings).endpoint()
        if endpoint is None:
            return "has not started yet"
        address = endpoint.url
    url = make_url(address).set(drivername="postgresql")
    try:
        psycopg2.connect(
            url.render_as_string(hide_password=False), connect_timeout=_PATIENCE_S
        ).close()
    except psycopg2.OperationalError as error:
        return f"does not answer: {_first_line(str(error))}"
    return None


def broker(settings: Settings) -> str | None:
    """Look whether it listens and has the room to take messages; another one, whether it takes us.

    Of another broker the room is not known.
    """
    if settings.broker_url is not None:
        return _greeted(settings, settings.broker_url)
    server = EmbeddedBroker(settings)
    problem = _listens(server)
    if problem is None and not server.has_room():
        return f"takes no messages: its disk has less than {_free(settings)} left"
    return problem


def spark(settings: Settings) -> str | None:
    """Look whether it listens."""
    if settings.spark_remote is not None:
        return _connected(settings.spark_remote)
    return _listens(EmbeddedSpark(settings))


def code(settings: Settings) -> str | None:
    """Ask the webserver what it knows of the code location."""
    try:
        entries = _graphql(settings, _LOCATIONS)["workspaceOrError"]["locationEntries"]
    except _NoAnswer as error:
        return f"is not known to the UI yet: {error}"
    for entry in entries:
        if entry["loadStatus"] != "LOADED":
            return "is being loaded"
        found = entry["locationOrLoadError"]
        if found["__typename"] == "PythonError":
            return f"does not load: {_first_line(found['message'])}"
    return None


def webserver(settings: Settings) -> str | None:
    """Ask for its version."""
    return _asked(f"http://{LOOPBACK}:{settings.dagster_port}/server_info")


def daemon(settings: Settings) -> str | None:
    """Ask the webserver for the heartbeats of the daemon."""
    try:
        health = _graphql(settings, _DAEMONS)["instance"]["daemonHealth"]
    except _NoAnswer as error:
        return f"is not known to the UI yet: {error}"
    for one in health["allDaemonStatuses"]:
        if one["required"] and not one["healthy"]:
            errors = "; ".join(_first_line(e["message"]) for e in one["lastHeartbeatErrors"])
            return f"{one['daemonType'].lower()} has no heartbeat{errors and ': '}{errors}"
    return None


def api(settings: Settings) -> str | None:
    """Ask whether it is ready."""
    return _asked(f"http://{seen_from_here(settings.api_host)}:{settings.api_port}/readyz")


def ingest(settings: Settings) -> str | None:
    """Look whether it holds the session that lands what devices publish."""
    lock = MqttSubscriber(settings, "", None).lock_file
    held = lock.exists() and locks.held_exclusively(lock)
    return None if held else "does not land messages yet"


def simulator(settings: Settings) -> str | None:
    """It can do nothing without the broker."""
    problem = broker(settings)
    return f"waits for the broker, which {problem}" if problem else None


PROBES: Final[dict[str, Callable[[Settings], str | None]]] = {
    probe.__name__: probe
    for probe in (postgres, broker, spark, code, webserver, daemon, api, ingest, simulator)
}


class _NoAnswer(Exception):
    pass


def _free(settings: Settings) -> str:
    return f"{settings.broker_min_disk_free / 2**20:,.0f} MiB ({variable('broker_min_disk_free')})"


def _listens(server: EmbeddedServer) -> str | None:
    endpoint = server.endpoint()
    if endpoint is None:
        return "has not started yet"
    return None if accepts(endpoint.port) else f"does not listen on port {endpoint.port}"


def _greeted(settings: Settings, url: str) -> str | None:
    try:
        greet(BrokerAddress.of(url, settings), f"{settings.ingest_client_id}-status")
    except PlatformError as error:
        return f"is not to be had: {error}"
    return None


def _connected(remote: str) -> str | None:
    # Slow to import, and needed only where Spark runs elsewhere.
    from ilyama_resources import spark as spark_connect

    try:
        spark_connect.greet(remote, within_s=_PATIENCE_S)
    except PlatformError as error:
        return f"is not to be had: {error}"
    return None


def _asked(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_S):
            return None
    except urllib.error.HTTPError as error:
        return f"answers {error.code}: {error.read(300).decode(errors='replace')}"
    except OSError as error:
        return f"does not answer: {getattr(error, 'reason', error)}"


def _graphql(settings: Settings, query: str) -> Any:
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{settings.dagster_port}/graphql",
        data=json.dumps({"query": query}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            return json.load(answer)["data"]
    except (OSError, KeyError, ValueError) as error:
        raise _NoAnswer(str(getattr(error, "reason", error))) from error


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:300]
