"""Roots of topics with odd names; names are data, never places or patterns."""

from ilyama_protocol.topics import CONTROL_PATH
from ilyama_service.simulator.scenarios.expected import accepted, unheard
from ilyama_service.simulator.scenarios.script import ROWS, Script

_ODD_NAMES = (
    *("..", ".", "~", "%2e%2e", "a.b", "a b", " ", "*", ">", "C:", "?x=1", "-rf", "sync"),
    *("'; DROP TABLE device; --", '"quoted"', "a${HOME}", "zażółć", "e\u0301", "😀", "x" * 200),
)


def odd_slugs(device: Script) -> None:
    """The first level of a topic is a path, a pattern, a script or empty."""
    for slug in ("", *_ODD_NAMES):
        _sends_from(device, f"{slug}/{device.device_name}")


def odd_device_names(device: Script) -> None:
    """The second level of a topic is a path, a pattern or a script."""
    for name in _ODD_NAMES:
        _sends_from(device, f"{device.device_name}/{name}")


def names_alike(device: Script) -> None:
    """Names that differ in case, or in how an accent is spelt, are different devices."""
    for name in ("pump-é", "pump-e\u0301", "PUMP-É", "Pump-é"):
        _sends_from(device, f"{device.device_name}/{name}")


def published_on_control(device: Script) -> None:
    """A device publishes where the platform does: nobody listens, and what comes next is taken."""
    _sends_unheard(device, f"{device.root}/{CONTROL_PATH}")


def topic_with_a_trailing_slash(device: Script) -> None:
    """A topic ends with a slash: it is another one, where nobody listens; the next is taken."""
    _sends_unheard(device, f"{device.root}/{ROWS}/")


def slug_of_the_broker(device: Script) -> None:
    """A slug begins with $, as the broker's own topics do: nobody listens; the next is taken."""
    _sends_unheard(device, f"${device.root}/{ROWS}")


def _sends_unheard(device: Script, topic: str) -> None:
    unheard_batch = device.batch(device.changes(1))
    device.sends_to(topic, unheard_batch, unheard())
    device.sends(unheard_batch, accepted(1))


def _sends_from(device: Script, root: str) -> None:
    device.sends_to(f"{root}/{ROWS}", device.batch(device.changes(1)), accepted(1))


ADDRESSES = (
    odd_slugs,
    odd_device_names,
    names_alike,
    published_on_control,
    topic_with_a_trailing_slash,
    slug_of_the_broker,
)
