"""`python -m docs.generate_vectors` writes the vectors of messages that scenarios send.

They are the sound messages of some scenarios, and everything that the simulator spoils. Payloads
that are too large for a line are told by what they repeat.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from ilyama_protocol import testing
from ilyama_protocol.rejections import RejectionCode
from ilyama_service.simulator.scenarios.catalog import SCENARIOS
from ilyama_service.simulator.scenarios.script import Script, Step

DIRECTORY: Final = Path(testing.__file__).with_name("vectors")
INLINE, REPEATING = "messages", "large_messages"
SOUND: Final = (
    *("redelivery", "conflicting_delete", "respelled_batch", "upper_case_ids", "clock_jumps"),
    *("nulls_and_unknown_members", "table_named_like_a_path", "odd_column_names", "odd_values"),
    *("announced_odd_columns", "odd_primary_keys", "odd_slugs", "odd_device_names"),
    *("schema_in_another_order", "schema_never_announced", "largest_payload"),
    *("telemetry_redelivery", "telemetry_clock_jumps", "telemetry_spelt_otherwise"),
    *("telemetry_odd_times", "telemetry_odd_fields", "telemetry_of_odd_tables"),
    *("telemetry_of_one_moment", "telemetry_values_of_another_kind", "telemetry_schema_additive"),
    *("observations", "unknown_acknowledgement", "odd_acknowledgements", "repeated_request"),
    *("finalize_without_a_grant", "schema_observed_first"),
)
_OF_HISTORY: Final = {RejectionCode.DUPLICATE_BATCH_SEQ, RejectionCode.STALE_BATCH_SEQ}
"""Codes that a message gets for what came before it."""
_MOST_INLINE: Final = 16 * 1024
_REPETITION: Final = re.compile(rb"(.{1,200}?)\1{50,}", re.DOTALL)


def vectors() -> dict[str, str]:
    """The text of each file, by its name."""
    lines: dict[str, list[dict[str, Any]]] = {INLINE: [], REPEATING: []}
    for name, step in _messages():
        asked = {"id": name, "topic": step.topic, "registered": step.registered}
        answer = {"code": step.expected.code}
        if len(step.payload) <= _MOST_INLINE:
            told = {"payload_b64": _text(step.payload)}
            lines[INLINE].append(asked | told | answer)
        else:
            pieces = [{"piece_b64": _text(piece), "times": n} for piece, n in _pieces(step.payload)]
            lines[REPEATING].append(asked | {"pieces": pieces} | answer)
    return {name: _lines(of_file) for name, of_file in lines.items()}


def _messages() -> Iterator[tuple[str, Step]]:
    """Messages with their names, none of them twice."""
    seen: set[tuple[str, bytes, bool]] = set()
    for scenario in SCENARIOS.values():
        for number, step in enumerate(scenario.played_by(Script("vectors")), start=1):
            known = (step.topic, step.payload, step.registered)
            if known not in seen and (_is_refused(step) or scenario.name in SOUND):
                seen.add(known)
                yield f"{scenario.name}/{number}", step


def _is_refused(step: Step) -> bool:
    return step.expected.code is not None and step.expected.code not in _OF_HISTORY


def _pieces(payload: bytes) -> Iterator[tuple[bytes, int]]:
    """What the payload is made of, each piece with how often it stands there."""
    end = 0
    for found in _REPETITION.finditer(payload):
        if found.start() > end:
            yield payload[end : found.start()], 1
        yield found[1], len(found[0]) // len(found[1])
        end = found.end()
    if end < len(payload):
        yield payload[end:], 1


def _text(payload: bytes) -> str:
    return b64encode(payload).decode()


def _lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows)


def main() -> None:
    """Write the files."""
    for name, text in vectors().items():
        (DIRECTORY / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
