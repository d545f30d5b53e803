"""The root of the errors whose text is a sentence for a person, shown without a traceback.

PlatformError
├── SettingsError          a setting is wrong
├── EmbeddedServerError    an embedded server does not start
├── PortTaken              another program listens where a part should
├── GatewayUnavailable     Postgres does not answer
├── GatewayRefused         Postgres answers, and refuses
├── BrokerUnavailable      the broker does not answer, or refuses
├── PublishRefused         the broker did not take a message
├── LandingBusy            another process lands what devices send
└── DrainStopped           a drain could not be finished
"""


class PlatformError(Exception):
    """Something a person can understand and act on."""
