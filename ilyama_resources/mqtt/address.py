"""Where a broker is, and how a client proves who it is."""

import base64
import binascii
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from ilyama_resources.settings import Settings, SettingsError, variable

_TLS_SCHEME: Final = "mqtts"
_PORTS: Final = {"mqtt": 1883, _TLS_SCHEME: 8883}


@dataclass(frozen=True)
class BrokerAddress:
    """A broker with the credentials for it."""

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, settings: Settings) -> Self:
        """Read an address like `mqtts://user:password@host:8883`.

        Raises:
            SettingsError: a certificate or key cannot be used.
        """
        parts = urlsplit(url)
        return cls(
            host=parts.hostname or "",
            port=parts.port or _PORTS[parts.scheme],
            username=_plain(parts.username),
            password=_plain(parts.password),
            tls=_tls_context(settings) if parts.scheme == _TLS_SCHEME else None,
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def _plain(text: str | None) -> str | None:
    return None if text is None else unquote(text)


def _tls_context(settings: Settings) -> ssl.SSLContext:
    """Verify the broker's name, and show a certificate where there is one."""
    authorities = settings.mqtt_ca_file
    try:
        context = ssl.create_default_context(cafile=None if authorities is None else authorities)
    except OSError as error:
        raise SettingsError(f"{variable('mqtt_ca_file')} is wrong: {error}.") from error
    with _certificate_and_key(settings) as files:
        if files is not None:
            _load_certificate(context, *files)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        names = f"{variable('mqtt_cert_file')} and {variable('mqtt_key_file')}"
        raise SettingsError(f"{names} are no certificate with its key: {error}.") from error


@contextmanager
def _certificate_and_key(settings: Settings) -> Iterator[tuple[Path, Path] | None]:
    if settings.mqtt_cert_content_b64 and settings.mqtt_key_content_b64:
        certificate = _decoded("mqtt_cert_content_b64", settings.mqtt_cert_content_b64)
        key = _decoded("mqtt_key_content_b64", settings.mqtt_key_content_b64)
        with _in_memory(certificate) as certificate_file, _in_memory(key) as key_file:
            yield certificate_file, key_file
    elif settings.mqtt_cert_file and settings.mqtt_key_file:
        yield settings.mqtt_cert_file, settings.mqtt_key_file
    else:
        yield None


def _decoded(field_name: str, content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise SettingsError(f"{variable(field_name)} is wrong: it is not Base64.") from error


@contextmanager
def _in_memory(content: bytes) -> Iterator[Path]:
    """A file that never touches a disk: ssl takes keys from files only."""
    descriptor = os.memfd_create("ilyama")
    try:
        os.write(descriptor, content)
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
