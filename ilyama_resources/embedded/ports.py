"""TCP ports of this machine, on the loopback address unless a server was told another."""

import random
import socket
from typing import Final

from ilyama_resources.errors import PlatformError

LOOPBACK: Final = "127.0.0.1"
_TRIED: Final = 1000
_ANY_HOST: Final = {"0.0.0.0": LOOPBACK, "::": "::1"}


class PortTaken(PlatformError):
    """Another program listens where a part of the platform should."""


def free_port(preferred: int | None = None) -> int:
    """Find a port nobody listens on: the preferred one if it can be had."""
    if preferred is not None and is_free(preferred):
        return preferred
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def free_port_from(first: int) -> int:
    """Find a free port among the thousand from a number on, any of them.

    Below the range from which the kernel takes ports for outgoing connections, so that a server
    finds its port free when it comes back; at random, so that two platforms that start together
    do not want the same.
    """
    tried = random.sample(range(first, first + _TRIED), _TRIED)
    return next(port for port in tried if is_free(port))


def accepts(port: int) -> bool:
    """Tell whether somebody listens on `port`."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def seen_from_here(host: str) -> str:
    """Where a server that listens on `host` answers on this machine, as it is spelled in a URL."""
    answers = _ANY_HOST.get(host, host)
    return f"[{answers}]" if ":" in answers else answers


def is_free(port: int) -> bool:
    """Tell whether a server could listen on `port`."""
    with socket.socket() as probe:
        # Connections of the server's last life that linger in TIME_WAIT do not hold the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
