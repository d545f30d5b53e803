"""Damage done to payloads: what broken firmware, broken memory and attackers send."""

import random
import re

_SCALAR = re.compile(rb'[:,\[]("[^"]*"|-?[0-9.]+|null|true|false)')
FRAGMENTS = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b'":', b'" :', b"},{", b"{}", b"}}"),
    *(b" ", b"\n", b"\t", b"\r", b"\0", b"\x7f", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"\\u", b"\\ud800", b"\\ud83d\\ude00", b"\\u0000", b"\xc2\x85"),
    *(b"NaN", b"Infinity", b"-Infinity", b"-", b"1e999", b"1E400", b"0e999", b"1.0", b"01"),
    *(b"-0", b"-0.0", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616"),
    *(b"1" * 400, b"1" * 5_000, b"null", b"true", b"false", b'"insert"', b'"delete"'),
    *(b"[" * 32 + b"]" * 32, b'{"a":{"b":[1,{"c":2}]}}', b'"id":1,', b'"x":1,', b'"device_id":1,'),
    *(b'"pk":{"id":1}', b'"row":{"a":1}', b',"row":null', b'"op":"delete"', b'"rows":[{'),
)


def damaged(payload: bytes, rng: random.Random) -> bytes:
    """Return a payload with one to three injuries."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        payload = rng.choice(INJURIES)(payload, rng)
    return payload


def _inserted(payload: bytes, rng: random.Random) -> bytes:
    return _replaced(payload, rng, length=0)


def _overwritten(payload: bytes, rng: random.Random) -> bytes:
    return _replaced(payload, rng, length=rng.choice((1, 1, 2, 5)))


def _replaced(payload: bytes, rng: random.Random, *, length: int) -> bytes:
    at = rng.randint(0, len(payload))
    return payload[:at] + rng.choice(FRAGMENTS) + payload[at + length :]


def _cut(payload: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(payload))
    return payload[:at] + payload[at + rng.choice((1, 1, 2, 5, 20)) :]


def _flipped(payload: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(payload))
    return payload[:at] + rng.randbytes(1) + payload[at + 1 :]


def _copied(payload: bytes, rng: random.Random) -> bytes:
    start, at = rng.randint(0, len(payload)), rng.randint(0, len(payload))
    return payload[:at] + payload[start : start + rng.choice((3, 8, 20, 60))] + payload[at:]


def _other_scalar(payload: bytes, rng: random.Random) -> bytes:
    scalars = [*_SCALAR.finditer(payload)]
    if not scalars:
        return payload
    start, end = rng.choice(scalars).span(1)
    return payload[:start] + rng.choice(FRAGMENTS) + payload[end:]


INJURIES = (_inserted, _overwritten, _cut, _flipped, _copied, _other_scalar, _other_scalar)
