"""The primary keys of a device: hashed, told as instances and bound to their series once each.

Devices change the same rows again and again. A primary key gets a number when its text is first
seen; from then on a row costs one look-up, and whole columns follow from the numbers. Devices of
a fleet often have the same keys, and what follows from a key's text alone is remembered for all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ilyama_protocol.canonical import canonical_json, pk_hashes
from ilyama_protocol.identifiers import instances_of
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, SOURCE
from ilyama_protocol.texts import CutTexts

KeyNumbers = npt.NDArray[np.int64]


class _Unknown(NamedTuple):
    pk: list[Mapping[str, Any]]
    pk_text: list[str]


class _Told(NamedTuple):
    """What follows from the text of a primary key alone."""

    pk_hash: str
    instance: str


_DIGEST = np.dtype([("first", ">u8"), ("rest", "V24")])
_REMEMBERED_KEYS = 65_536
_REMEMBERED_CHARACTERS = 128
_remembered: dict[str, _Told] = {}


class RowHashes:
    """The `source_pk_hash` of every row, looked up when they are asked for; seldom they are."""

    def __init__(self, hashes: Sequence[str], numbers: KeyNumbers) -> None:
        self._hashes = hashes
        self._numbers = numbers

    def __iter__(self) -> Iterator[str]:
        """The hashes, row by row."""
        return map(self._hashes.__getitem__, self._numbers.tolist())


class KnownKeys:
    """Every primary key that one device has named, by its number.

    Two spellings of a key have two numbers; their hashes, instances and series are the same.
    """

    def __init__(self, device_id: str) -> None:
        self.texts: list[str] = []
        self.hashes: list[str] = []
        self.instances: list[str] = []
        self._owner = canonical_json(device_id)
        self._spelled: list[str] = []
        self._numbers: dict[str, int] = {}
        self._series: dict[str, array[int]] = {}

    def numbers(self, pk_text: Sequence[str]) -> KeyNumbers:
        """The number of every row's primary key."""
        if isinstance(pk_text, CutTexts):
            texts, which = pk_text.distinct()
            return self._numbers_of(texts)[which]
        return self._numbers_of(pk_text)

    def hashes_of(self, numbers: KeyNumbers) -> RowHashes:
        """The `source_pk_hash` of every row."""
        return RowHashes(self.hashes, numbers)

    def series(self, key: str) -> array[int]:
        """The 62 bits that stand for a datapoint key's series in its ids, by number."""
        known = self._series.setdefault(key, array("Q"))
        if len(known) == len(self.instances):
            return known
        self._spelled += map(canonical_json, self.instances[len(self._spelled) :])
        head = f'["{OWNER_KIND}",{self._owner},{canonical_json(key)},'
        tail = f',"{PROVENANCE}","{SOURCE}"]'
        digests = [
            sha256(f"{head}{instance}{tail}".encode()).digest()
            for instance in self._spelled[len(known) :]
        ]
        first_words = np.frombuffer(b"".join(digests), _DIGEST)["first"]
        known.frombytes((first_words >> 2).astype(np.uint64).tobytes())
        return known

    def _numbers_of(self, texts: Sequence[str]) -> KeyNumbers:
        found = [*map(self._numbers.get, texts)]
        if None in found:
            self._learn([*dict.fromkeys(text for text in texts if text not in self._numbers)])
            found = [*map(self._numbers.get, texts)]
        return np.array(found, np.int64)

    def _learn(self, new: list[str]) -> None:
        hashes, instances = zip(*_told_of(new), strict=True)
        self._numbers.update((text, number) for number, text in enumerate(new, len(self.texts)))
        self.texts += new
        self.hashes += hashes
        self.instances += instances


def _told_of(texts: list[str]) -> list[_Told]:
    found = [*map(_remembered.get, texts)]
    unknown = [text for text, told in zip(texts, found, strict=True) if told is None]
    learnt = _learnt(unknown) if unknown else {}
    return [told or learnt[text] for text, told in zip(texts, found, strict=True)]


def _learnt(texts: list[str]) -> dict[str, _Told]:
    unknown = _Unknown([*map(msgspec.json.decode, texts)], texts)
    told = map(_Told, pk_hashes(unknown), instances_of(unknown))
    learnt = dict(zip(texts, told, strict=True))
    if len(_remembered) > _REMEMBERED_KEYS:
        _remembered.clear()
    short = {text for text in texts if len(text) <= _REMEMBERED_CHARACTERS}
    _remembered.update((text, learnt[text]) for text in short)
    return learnt
