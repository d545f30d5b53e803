"""Errors of the MQTT parts.

PlatformError
├── BrokerUnavailable      the broker cannot be reached, or the connection to it was lost
│   └── BrokerRefused      it was reached and does not want us: password, certificate, client id
├── PublishRefused         the broker did not take a message
└── LandingBusy            another process lands what devices send
"""

from ilyama_resources.errors import PlatformError


class BrokerUnavailable(PlatformError):
    """The broker cannot be reached, or the connection to it was lost."""


class BrokerRefused(BrokerUnavailable):
    """The broker was reached and refuses this client."""


class PublishRefused(PlatformError):
    """The broker did not take a message, or could not."""


class LandingBusy(PlatformError):
    """Another process holds the session that lands what devices send."""
