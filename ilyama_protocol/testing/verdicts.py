"""Verdicts and answers that a test can insist on, with failures that say what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import pytest

from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.rehearsal import Answer, Rehearsal
from ilyama_protocol.rejections import ClientAction, Rejection, RejectionCode
from ilyama_protocol.topics import MessageKind, kind_on
from ilyama_protocol.validation import validate

Payload: TypeAlias = bytes | str | dict[str, Any] | list[Any]
"""The bytes of a message; a text is sent in UTF-8, objects and arrays as plain JSON."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the validator says of one message, whatever came before it.

    Attributes:
        topic: Where it was to be published.
        code: Why it is rejected; None when it is accepted.
        json_path: The first offending place.
        sentence: What is wrong there.
        action: What to do about it.
    """

    topic: str
    code: RejectionCode | None = None
    json_path: str | None = None
    sentence: str | None = None
    action: ClientAction | None = None

    @property
    def accepted(self) -> bool:
        """Whether nothing is wrong with the message."""
        return self.code is None

    def assert_accepted(self) -> None:
        """Fail the test when the message is rejected, with the place, the reason and the remedy."""
        __tracebackhide__ = True
        if not self.accepted:
            pytest.fail(self._told("is rejected"), pytrace=False)

    def assert_rejected(self, code: str, json_path: str | None = None) -> None:
        """Fail the test unless the message is rejected with this code, at this place if given."""
        __tracebackhide__ = True
        if self.code != code:
            pytest.fail(self._told(f"should be rejected with {code} and is"), pytrace=False)
        if json_path not in (None, self.json_path):
            pytest.fail(self._told(f"should be rejected at {json_path} and is"), pytrace=False)

    def _told(self, what: str) -> str:
        if self.accepted:
            return f"the message on {self.topic} {what} accepted"
        return (
            f"the message on {self.topic} {what}: {self.code} at {self.json_path}\n"
            f"    {self.sentence}\n"
            f"    action: {self.action}"
        )


_COUNTS = frozenset(name for name in Answer.__struct_fields__ if name.startswith("rows_"))


class SessionAnswer(Answer, frozen=True, kw_only=True):
    """What became of a message that a device session published."""

    def assert_outcome(self, outcome: str, **counts: int) -> None:
        """Fail the test unless the message came to this end, with these counts of its rows.

        Args:
            outcome: `accepted`, `duplicate`, `rejected`, `staged`, `handled` (what is no batch) or
                `kept` (what is below `devices/`).
            counts: Counts by name, such as `rows_new=3`.
        """
        __tracebackhide__ = True
        _insist_on_names(outcome, counts)
        found = {name: getattr(self, name) for name in counts}
        if self.outcome != outcome or found != counts:
            wanted = ", ".join([outcome, *(f"{name}={count}" for name, count in counts.items())])
            pytest.fail(f"expected: {wanted}\nfound: {self._told()}", pytrace=False)

    def assert_accepted(self, **counts: int) -> None:
        """Fail the test unless the message is taken: rows of it are new, or it is no batch."""
        __tracebackhide__ = True
        is_batch = self.outcome not in (Outcome.HANDLED, Outcome.KEPT)
        self.assert_outcome(Outcome.ACCEPTED if is_batch else self.outcome, **counts)

    def assert_duplicate(self) -> None:
        """Fail the test unless everything in the message was known, and the same."""
        __tracebackhide__ = True
        self.assert_outcome(Outcome.DUPLICATE, rows_conflict=0)

    def assert_rejected(self, code: str, json_path: str | None = None) -> None:
        """Fail the test unless the message is rejected with this code, at this place if given."""
        __tracebackhide__ = True
        is_there = json_path in (None, self.json_path)
        if self.outcome is not Outcome.REJECTED or self.code != code or not is_there:
            place = "" if json_path is None else f" at {json_path}"
            wanted = f"rejected, {code}{place}"
            pytest.fail(f"expected: {wanted}\nfound: {self._told()}", pytrace=False)

    def _told(self) -> str:
        lines = [self.sentence, self.message, self.action and f"action: {self.action}"]
        return "\n    ".join(line for line in lines if line)


class DeviceSession:
    """One device and the platform's memory of it: publish, and see what becomes of it."""

    def __init__(self, root: str, *, registered: bool = True) -> None:
        self._rehearsal = Rehearsal(root)
        self._registered = registered
        self.answers: list[SessionAnswer] = []

    def publish(self, topic: str, payload: Payload) -> SessionAnswer:
        """Publish on a full topic, or on the part after the device's root."""
        answer = self._rehearsal.publish(topic, encoded(payload), registered=self._registered)
        self.answers.append(msgspec.convert(msgspec.to_builtins(answer), SessionAnswer))
        return self.answers[-1]


def judged(topic: str, payload: Payload, *, registered: bool = True) -> Verdict:
    """Ask the validator about one message; one below `devices/` it does not judge."""
    __tracebackhide__ = True
    kind = kind_on(topic)
    if kind is MessageKind.DEVICE:
        pytest.fail(
            f"the message on {topic} is kept as it is and judged by nobody; ask about topics "
            "below sync/, or publish it with ilyama_device and insist on the outcome `kept`",
            pytrace=False,
        )
    verdict = validate(kind, encoded(payload), registered=registered, topic=topic)
    if not isinstance(verdict, Rejection):
        return Verdict(topic=topic)
    return Verdict(
        topic=topic,
        code=verdict.code,
        json_path=verdict.json_path,
        sentence=verdict.message,
        action=verdict.action,
    )


def encoded(payload: Payload) -> bytes:
    """Return a payload as it goes over the wire."""
    __tracebackhide__ = True
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    return (payload if isinstance(payload, str) else _as_json(payload)).encode()


def _as_json(payload: Any) -> str:
    __tracebackhide__ = True
    try:
        return json.dumps(payload, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        pytest.fail(f"the payload cannot be sent as JSON: {error}", pytrace=False)


def _insist_on_names(outcome: str, counts: Mapping[str, int]) -> None:
    __tracebackhide__ = True
    known = frozenset(map(str, Outcome))
    for name, names in ((outcome, known), *((count, _COUNTS) for count in counts)):
        if name not in names:
            is_outcome = "an outcome" if names is known else "a count"
            told = f"{name!r} is no name of {is_outcome}; there are {', '.join(sorted(names))}"
            pytest.fail(told, pytrace=False)
