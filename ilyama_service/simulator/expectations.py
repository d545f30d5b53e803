"""What the platform must hold after a run, read from its record into columns.

A row key is one number: the number of its instance (device, table, epoch, primary key) above its
commit_seq. Messages of which no acknowledgement came may have arrived or not; what hangs on the
order or the presence of one is left undecided for the whole device.
"""

from __future__ import annotations

from array import array
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ilyama_protocol.canonical import canonical_bytes
from ilyama_service.simulator.messages import Behaviour, Sent
from ilyama_service.simulator.record import (
    Acknowledged,
    Header,
    RecordMissing,
    read_lines,
)
from ilyama_service.simulator.source_tables import DELETE, INSERT, UPDATE

OPS: Final = {INSERT: 0, UPDATE: 1, DELETE: 2}
SEQ_BITS: Final = 28
_RANK_BITS: Final = 12
_CHECKSUM_BITS: Final = 32

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Instance(NamedTuple):
    """A row of a device's table as one journal knows it."""

    device_id: str
    source_table: str
    journal_epoch: str
    source_pk_hash: str


class NewestRow(NamedTuple):
    """What current values of one primary key follow from."""

    device_id: str
    source_table: str
    pk: bytes
    content_key: int | None
    deleted: bool | None


class Expectations:
    """The messages and rows of a run."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.instances: dict[Instance, int] = {}
        self.device_ids: dict[str, int] = {}
        self.epochs: set[str] = set()
        self.codes: list[str | None] = [None]
        self.samples: dict[tuple[str, str], tuple[int, int]] = {}
        """Of every telemetry batch its rows, and the message that first brought it."""
        self._ranks: dict[tuple[str, str], int] = {}
        self._epochs_of: dict[str, int] = {}
        self._instance_rank = array("q")
        self._instance_pk = array("q")
        self._pks: dict[tuple[str, str, bytes], int] = {}
        self._pk_hashes: dict[bytes, str] = {}
        self._hashes = array("Q")
        self._devices = array("q")
        self._codes = array("q")
        self._is_clone = bytearray()
        self._acknowledged = bytearray()
        self._keys = array("q")
        self._contents = array("q")
        self._messages = array("q")

    @classmethod
    def read(cls, path: Path) -> Expectations:
        """Read a record.

        Raises:
            RecordMissing: the file is no record of a run.
        """
        lines = read_lines(path)
        try:
            header = next(lines, None)
            if not isinstance(header, Header):
                raise RecordMissing(f"{path} is no record of a run.")
            expectations = cls(header)
            for line in lines:
                expectations._add(line)
        except msgspec.ValidationError as error:
            raise RecordMissing(f"{path} is no record of a run: {error}.") from error
        return expectations

    @property
    def message_keys(self) -> NDArray[np.uint64]:
        """One number per message, made of its hash and its device."""
        hashes = np.frombuffer(self._hashes, np.uint64)
        return message_keys(hashes, np.frombuffer(self._devices, np.int64))

    @property
    def acknowledged(self) -> Flags:
        """Which messages the broker has acknowledged."""
        return np.frombuffer(self._acknowledged, np.bool_)

    @property
    def message_codes(self) -> Longs:
        """The place in `codes` of what each message is to be rejected with; 0 is not at all."""
        return np.frombuffer(self._codes, np.int64)

    @property
    def clones(self) -> Flags:
        """Which messages have other content under keys that are taken."""
        return np.frombuffer(self._is_clone, np.bool_)

    @property
    def message_devices(self) -> Longs:
        """The device of each message."""
        return np.frombuffer(self._devices, np.int64)

    @property
    def row_keys(self) -> Longs:
        """The key of each row, in the order of publishing."""
        return np.frombuffer(self._keys, np.int64)

    @property
    def row_contents(self) -> Longs:
        """The operation and checksum of each row."""
        return np.frombuffer(self._contents, np.int64)

    @property
    def row_messages(self) -> Longs:
        """The message of each row."""
        return np.frombuffer(self._messages, np.int64)

    @property
    def undecided_devices(self) -> Longs:
        """Devices of which a message is not acknowledged."""
        return np.unique(self.message_devices[~self.acknowledged])

    @property
    def undecided_pks(self) -> int:
        """How many primary keys belong to them."""
        devices = set(self.undecided_devices.tolist())
        return sum(self.device_ids[name[0]] in devices for name in self._pks)

    def newest_rows(self) -> list[NewestRow]:
        """What the current values of each primary key must follow from, where that is certain.

        A change is late, and never becomes current, when one with a higher place came before it.
        """
        certain = ~np.isin(self.message_devices[self.row_messages], self.undecided_devices)
        keys, first = np.unique(self.row_keys[certain], return_index=True)
        arrival = np.argsort(first, kind="stable")
        keys, contents = keys[arrival], self.row_contents[certain][first[arrival]]
        instances = keys >> SEQ_BITS
        pk = np.frombuffer(self._instance_pk, np.int64)[instances]
        rank = np.frombuffer(self._instance_rank, np.int64)[instances]
        return self._newest(keys, contents >> _CHECKSUM_BITS, pk=pk, rank=rank)

    def _newest(self, keys: Longs, ops: Longs, *, pk: Longs, rank: Longs) -> list[NewestRow]:
        seq = keys & ((1 << SEQ_BITS) - 1)
        place = (pk << (SEQ_BITS + _RANK_BITS)) | (rank << SEQ_BITS) | seq
        by_pk = np.argsort(pk, kind="stable")
        place, pk, ops, keys = place[by_pk], pk[by_pk], ops[by_pk], keys[by_pk]
        in_time = place == np.maximum.accumulate(place)
        content = _last_per(pk, keys, in_time & (ops != OPS[DELETE]))
        existence = _last_per(pk, ops, in_time & (ops != OPS[UPDATE]))
        return [
            NewestRow(
                *name,
                content_key=content.get(number),
                deleted=None if number not in existence else existence[number] == OPS[DELETE],
            )
            for name, number in self._pks.items()
            if number in content or number in existence
        ]

    def _add(self, line: Header | Sent | Acknowledged) -> None:
        match line:
            case Sent():
                self._add_message(line)
            case Acknowledged():
                for first, last in line.ranges:
                    self._acknowledged[first : last + 1] = b"\x01" * (last + 1 - first)
            case Header():
                raise RecordMissing("A record has one header only.")

    def _add_message(self, sent: Sent) -> None:
        device_id = self.header.plan.device_id(sent.device)
        device = self.device_ids.setdefault(device_id, len(self.device_ids))
        self._hashes.append(int(sent.sha256[:16], 16))
        self._devices.append(device)
        self._codes.append(self._code(sent))
        self._is_clone.append(sent.behaviour is Behaviour.CLONE)
        self._acknowledged.append(0)
        if sent.samples:
            message = len(self._hashes) - 1
            self.samples.setdefault((device_id, sent.batch_id), (sent.samples, message))
        for row in sent.rows:
            instance = self._instance(device_id, sent, bytes(row.pk))
            self._keys.append(instance << SEQ_BITS | row.commit_seq)
            self._contents.append(content_of(row.op, row.checksum))
            self._messages.append(len(self._hashes) - 1)

    def _code(self, sent: Sent) -> int:
        code = None if sent.code is None else sent.code.value
        if code not in self.codes:
            self.codes.append(code)
        return self.codes.index(code)

    def _instance(self, device_id: str, sent: Sent, pk: bytes) -> int:
        instance = Instance(device_id, sent.source_table, sent.journal_epoch, self._pk_hash(pk))
        number = self.instances.get(instance)
        if number is None:
            number = self.instances[instance] = len(self.instances)
            name = (device_id, sent.source_table, pk)
            self._instance_pk.append(self._pks.setdefault(name, len(self._pks)))
            self._instance_rank.append(self._rank(device_id, sent.journal_epoch))
        return number

    def _rank(self, device_id: str, epoch: str) -> int:
        """Journals are ordered by their first accepted arrival."""
        known = self._ranks.get((device_id, epoch))
        if known is None:
            self.epochs.add(epoch)
            known = self._epochs_of.get(device_id, 0)
            self._ranks[device_id, epoch] = known
            self._epochs_of[device_id] = known + 1
        return known

    def _pk_hash(self, pk: bytes) -> str:
        known = self._pk_hashes.get(pk)
        if known is None:
            canonical = canonical_bytes(msgspec.json.decode(pk))
            known = self._pk_hashes[pk] = sha256(canonical).hexdigest()
        return known


def content_of(op: str, checksum: int) -> int:
    """An operation and the checksum of its row as one number."""
    return OPS[op] << _CHECKSUM_BITS | checksum


def message_keys(hashes: NDArray[np.uint64], devices: Longs) -> NDArray[np.uint64]:
    """Numbers for messages of devices, by the first half of their hashes."""
    return hashes ^ (devices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _last_per(groups: Longs, values: Longs, chosen: Flags) -> dict[int, Any]:
    """The last chosen value of each group, whose members are side by side."""
    picked, of_picked = groups[chosen], values[chosen]
    is_last = np.append(np.diff(picked) != 0, [True])[: len(picked)]
    return dict(zip(picked[is_last].tolist(), of_picked[is_last].tolist(), strict=True))
