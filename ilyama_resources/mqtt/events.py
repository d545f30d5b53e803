"""What the MQTT parts write into the log: an event with its fields, never a secret."""

import logging
from typing import Final

LOGGER: Final = logging.getLogger("ilyama.mqtt")


def log_event(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log an event as `event field=value …`; handlers find the fields in the record too."""
    if LOGGER.isEnabledFor(level):
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        LOGGER.log(level, "%s %s", event, text, extra={"event": event, "fields": fields})
