"""Is a part healthy? Each is asked in its own language; the answer is nothing, or what is wrong."""

import json
import time
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
from ilyama_resources.landing.directory import Landing
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.probing import greet
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.settings import Ingest, Settings, variable
from ilyama_service.dagster_home import DagsterHome
from ilyama_service.stack.supervision import Supervisor

_PATIENCE_S: Final = 5
_LOCATIONS: Final = """{ workspaceOrError { ... on Workspace { locationEntries {
    loadStatus locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
_DAEMONS: Final = """{ instance { daemonHealth { allDaemonStatuses {
    daemonType required healthy lastHeartbeatTime lastHeartbeatErrors { message } } } } }"""
_HEARTBEAT_AGE_S: Final = 120
"""A daemon tells every half minute that it is alive; Dagster itself worries after half an hour."""
_SENSOR: Final = """{ sensorOrError(sensorSelector: {
    repositoryName: "__repository__", repositoryLocationName: "ilyama", sensorName: "mqtt_ingest"
}) { ... on Sensor { sensorState { status ticks(limit: 1) {
    status error { message errorChain { error { message } } } } } } } }"""


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
    # The webserver remembers the code of a server that has died.
    port = DagsterHome(settings).code_port()
    return None if port is not None and accepts(port) else "does not listen"


def webserver(settings: Settings) -> str | None:
    """Ask for its version."""
    return _asked(f"http://{LOOPBACK}:{settings.dagster_port}/server_info")


def daemon(settings: Settings) -> str | None:
    """Ask the webserver for the heartbeats of the daemon, of its present life."""
    try:
        health = _graphql(settings, _DAEMONS)["instance"]["daemonHealth"]
    except _NoAnswer as error:
        return f"is not known to the UI yet: {error}"
    started_at = Supervisor(settings).states().get("daemon", {}).get("start", 0)
    oldest = max(started_at, time.time() - _HEARTBEAT_AGE_S)
    for one in health["allDaemonStatuses"]:
        alive = one["healthy"] and (one["lastHeartbeatTime"] or 0) >= oldest
        if one["required"] and not alive:
            errors = "; ".join(_first_line(e["message"]) for e in one["lastHeartbeatErrors"])
            return f"{one['daemonType'].lower()} has no heartbeat{errors and ': '}{errors}"
    return None


def api(settings: Settings) -> str | None:
    """Ask whether it is ready."""
    return _asked(f"http://{seen_from_here(settings.api_host)}:{settings.api_port}/readyz")


def ingest(settings: Settings) -> str | None:
    """Look whether somebody lands what devices publish, and whether the disk takes it."""
    try:
        Landing(settings.landing).probe()
    except OSError as error:
        return f"cannot write what devices publish: {error.strerror}; the broker keeps it"
    return _sensing(settings) if settings.ingest is Ingest.SENSOR else _held(settings)


def _held(settings: Settings) -> str | None:
    """Whether the process holds the session that lands messages."""
    lock = MqttSubscriber(settings, "", None).lock_file
    held = lock.exists() and locks.held_exclusively(lock)
    return None if held else "does not land messages yet"


def _sensing(settings: Settings) -> str | None:
    """Whether the sensor is switched on, and how its last tick ended."""
    try:
        state = _graphql(settings, _SENSOR)["sensorOrError"].get("sensorState")
    except _NoAnswer as error:
        return f"is not known to the UI yet: {error}"
    if state is None:
        return "is being loaded"
    if state["status"] != "RUNNING":
        return "is switched off: start the sensor mqtt_ingest in the Dagster UI"
    if not state["ticks"]:
        return "has not begun to land"
    (tick,) = state["ticks"]
    return f"fails: {_cause(tick['error'])}" if tick["status"] == "FAILURE" else None


def _cause(error: dict[str, Any]) -> str:
    """The sentence behind a failure, without the names of the classes around it."""
    innermost = [error, *(link["error"] for link in error["errorChain"])][-1]
    return _first_line(innermost["message"]).partition(": ")[2] or "see its ticks"


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
    from ilyama_resources.spark.probing import greet as greet_spark

    try:
        greet_spark(remote, within_s=_PATIENCE_S)
    except PlatformError as error:
        return f"is not to be had: {error}"
    return None


def _asked(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_S):
            return None
    except urllib.error.HTTPError as error:
        return f"answers {error.code}: {_message(error.read())}"
    except OSError as error:
        return f"does not answer: {getattr(error, 'reason', error)}"


def _message(body: bytes) -> str:
    """The sentence of an error in the API's form."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return _first_line(body.decode(errors="replace"))


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
