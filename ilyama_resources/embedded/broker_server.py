"""The embedded broker: Apache ActiveMQ Artemis, which acknowledges what its disk has."""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, ClassVar, Final

from ilyama_resources.embedded.broker_configuration import (
    USER,
    write_configuration,
    write_private,
)
from ilyama_resources.embedded.java import find_java
from ilyama_resources.embedded.ports import LOOPBACK, accepts, free_port, is_free
from ilyama_resources.embedded.server import (
    EmbeddedServer,
    EmbeddedServerError,
    Endpoint,
    dies_with_parent,
    wait_until,
)
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.settings import Settings, private_directory, variable

_MAIN_CLASS: Final = "ilyama.Broker"
# After a kill, the last life's socket can take a moment to go.
_LAST_LIFE_ENDS_WITHIN_S: Final = 5
_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    # A stack trace for each packet that is refused: a flood, and on a full disk of all places.
    "-Dorg.slf4j.simpleLogger.log.org.apache.activemq.artemis.core.protocol.mqtt=off",
)


@contextmanager
def broker_in_use(settings: Settings) -> Iterator[str]:
    """Give the address of the deployment's broker: the configured one, else the embedded."""
    if settings.broker_url is not None:
        yield settings.broker_url
    else:
        with EmbeddedBroker(settings).in_use() as url:
            yield url


class EmbeddedBroker(EmbeddedServer):
    """An MQTT 5 broker on the loopback address that asks for a password."""

    part: ClassVar[str] = "broker"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    start_within_s: ClassVar[float] = 120
    stop_within_s: ClassVar[float] = 30

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._directory = settings.broker_dir
        self._password_file = self._directory / "password"
        self._subscribed = self._directory / "subscribed"

    def start(self, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], Endpoint]:
        """Start the broker and wait until it listens."""
        self._require_classes()
        port = self._require_port()
        if not self._subscription_exists():
            self._subscribe_before_devices_come(log)
        return self._serve(log, port)

    def _subscription_exists(self) -> bool:
        return self._subscribed.exists() and self._subscribed.read_text() == self._subscription()

    def _subscription(self) -> str:
        filters = MqttSubscriber(self.settings, "", None).filters
        return "\n".join((self.settings.ingest_client_id, *filters))

    def _subscribe_before_devices_come(self, log: IO[bytes]) -> None:
        """Let the platform subscribe while the broker listens where no device looks for it.

        A broker keeps nothing that nobody has asked for: what a device published before the first
        subscription would be acknowledged and lost.
        """
        process, endpoint = self._serve(log, free_port())
        try:
            MqttSubscriber(self.settings, endpoint.url, None).subscribe_only()
        finally:
            process.send_signal(self.stop_signal)
            process.wait(self.stop_within_s)
        write_private(self._subscribed, self._subscription())

    def _serve(self, log: IO[bytes], port: int) -> tuple[subprocess.Popen[bytes], Endpoint]:
        self._configure(port)
        process = self._launch(log)
        if not wait_until(lambda: accepts(port), process=process, within_s=self.start_within_s):
            process.kill()
            raise EmbeddedServerError("The broker ended, or did not listen in time.")
        return process, Endpoint(url=self._url(port), port=port, pid=process.pid)

    def has_room(self) -> bool:
        """Whether the disk has the room without which the broker takes no more messages."""
        return shutil.disk_usage(self._directory).free >= self.settings.broker_min_disk_free

    def _require_classes(self) -> None:
        for directory in self._class_path:
            if not directory.is_dir():
                raise EmbeddedServerError(f"{directory} is missing: run `make setup`.")

    def _require_port(self) -> int:
        port = self.settings.broker_port
        if not wait_until(lambda: is_free(port), within_s=_LAST_LIFE_ENDS_WITHIN_S):
            name = variable("broker_port")
            raise EmbeddedServerError(f"Port {port} is in use: set {name} to a free one.")
        return port

    def _configure(self, port: int) -> None:
        private_directory(self._directory)
        if not self._password_file.exists():
            write_private(self._password_file, secrets.token_urlsafe(24))
        write_configuration(
            self._directory,
            port=port,
            password=self._password_file.read_text(),
            min_disk_free=self.settings.broker_min_disk_free,
        )

    def _launch(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(),
            cwd=self._directory,
            env={**os.environ, "TZ": "UTC"},
            umask=0o077,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=dies_with_parent(self.stop_signal),
        )

    def _command(self) -> list[str]:
        return [
            str(find_java()),
            "-Xms64m",
            f"-Xmx{self.settings.broker_memory}",
            "-XX:+UseSerialGC",
            "-XX:+ExitOnOutOfMemoryError",
            "-Duser.timezone=UTC",
            f"-Djava.security.auth.login.config={self._directory / 'login.config'}",
            *_LOGGING,
            *("-cp", "{}:{}/*".format(*self._class_path)),
            *(_MAIN_CLASS, str(self._directory / "broker.xml")),
        ]

    @property
    def _class_path(self) -> tuple[Path, Path]:
        return self.settings.jars / "broker-classes", self.settings.jars / "broker"

    def _url(self, port: int) -> str:
        return f"mqtt://{USER}:{self._password_file.read_text()}@{LOOPBACK}:{port}"
