"""Compares the messages of a run with the lines of `batch_ledger`."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ilyama_service.simulator.expectations import Expectations, Flags, Longs, message_keys
from ilyama_service.simulator.reports import EXAMPLES, MessageFindings

LEDGER_COLUMNS: Final = (
    "device_id",
    "payload_sha256",
    "outcome",
    "code",
    "rows_conflict",
    "origin",
)
_LIVE: Final = "live"
_TAKEN: Final = ("accepted", "duplicate")
_NOT_EXPECTED: Final = -1


class _Lines(NamedTuple):
    """Ledger lines: the message, the place of its code in `codes`, whether it was in conflict."""

    keys: NDArray[np.uint64]
    codes: Longs
    in_conflict: Flags


def compare_messages(
    expected: Expectations, ledger: Iterable[pa.RecordBatch]
) -> tuple[MessageFindings, list[str]]:
    """What is lost or came to another end than expected, with some examples."""
    lines = _lines(expected, ledger)
    known, first = np.unique(expected.message_keys, return_index=True)
    acknowledged = _counts(known, expected.message_keys[expected.acknowledged])
    published = _counts(known, expected.message_keys)
    arrived = _counts(known, lines.keys)
    visible = np.minimum(arrived, acknowledged)
    wrong = _wrong(expected, lines, known=known, first=first)
    findings = MessageFindings(
        published=len(expected.message_keys),
        acknowledged=int(acknowledged.sum()),
        visible=int(visible.sum()),
        lost=int((acknowledged - visible).sum()),
        arrived_again=int(np.maximum(arrived - published, 0).sum()),
        to_be_rejected=int(((expected.message_codes > 0) & expected.acknowledged).sum()),
        wrong_outcome=len(wrong),
    )
    lost = first[visible < acknowledged][:EXAMPLES].tolist()
    return findings, [
        *(f"message {number} was acknowledged and is not in batch_ledger" for number in lost),
        *(f"message {number} came to another end than expected" for number in wrong[:EXAMPLES]),
    ]


def _wrong(
    expected: Expectations, lines: _Lines, *, known: NDArray[np.uint64], first: Longs
) -> list[int]:
    """The messages of the lines whose outcome, code or conflict is not the expected one."""
    place, ours = places_in(known, lines.keys)
    message = first[place[ours]]
    other_code = lines.codes[ours] != expected.message_codes[message]
    decided = ~np.isin(expected.message_devices[message], expected.undecided_devices)
    other_conflict = (lines.in_conflict[ours] != expected.clones[message]) & decided
    wrong: list[int] = message[other_code | other_conflict].tolist()
    return wrong


def _lines(expected: Expectations, ledger: Iterable[pa.RecordBatch]) -> _Lines:
    hashes: list[int] = []
    devices: list[int] = []
    codes: list[int] = []
    in_conflict: list[bool] = []
    known_codes = {code: place for place, code in enumerate(expected.codes)}
    for batch in ledger:
        live = batch.filter(pc.equal(batch["origin"], _LIVE))
        hashes += [int(text[:16], 16) for text in live["payload_sha256"].to_pylist()]
        devices += [expected.device_ids[device] for device in live["device_id"].to_pylist()]
        in_conflict += [number > 0 for number in live["rows_conflict"].to_pylist()]
        ends = zip(live["outcome"].to_pylist(), live["code"].to_pylist(), strict=True)
        codes += [
            known_codes.get(code, _NOT_EXPECTED) if code or outcome in _TAKEN else _NOT_EXPECTED
            for outcome, code in ends
        ]
    keys = message_keys(np.array(hashes, np.uint64), np.array(devices, np.int64))
    return _Lines(keys, np.array(codes, np.int64), np.array(in_conflict, np.bool_))


def _counts(known: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Longs:
    """How often each known key occurs; others are left out."""
    place, ours = places_in(known, keys)
    return np.bincount(place[ours], minlength=len(known)).astype(np.int64)


def places_in(known: NDArray[np.generic], keys: NDArray[np.generic]) -> tuple[Longs, Flags]:
    """The place of each key among sorted known ones, and whether it is one of them."""
    if not len(known):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return place.astype(np.int64), known[place] == keys
