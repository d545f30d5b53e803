"""Compares what current values must be after a run with what Postgres serves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.identifiers import instance_of, key_of
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.current_values import CurrentValueRecord
from ilyama_service.simulator.expectations import NewestRow
from ilyama_service.simulator.reports import EXAMPLES, ValueFindings

_OWNERS_AT_ONCE: Final = 200

ValueName = tuple[str, str, str]
"""(device_id, key, instance)."""
Value = float | str | None


class ServedValues(NamedTuple):
    """What is served of some devices, and their lineages that are not."""

    values: Mapping[ValueName, Value]
    unserved: Collection[Lineage]


LookUp = Callable[[Collection[str]], ServedValues]
"""Takes device ids."""


def served_by(gateway: Gateway) -> LookUp:
    """Look values up in Postgres."""

    def look_up(device_ids: Collection[str]) -> ServedValues:
        with gateway.transaction() as tx:
            values = {
                (value.owner_id, value.key, value.instance): _served(value)
                for value in tx.current_values.of_owners(device_ids)
            }
            return ServedValues(values, tx.current_values.unserved_of(device_ids))

    return look_up


class ValueComparison:
    """Looks at the values of some devices at a time."""

    def __init__(self, look_up: LookUp, texts: Mapping[int, str]) -> None:
        self._look_up = look_up
        self._texts = texts
        self._findings = ValueFindings()
        self._examples: list[str] = []

    def compare(
        self, newest: Sequence[NewestRow], *, left_out: Collection[str]
    ) -> tuple[ValueFindings, list[str]]:
        """Compare the values of all but the devices that are left out."""
        by_device: dict[str, list[NewestRow]] = {}
        for row in newest:
            if row.device_id in left_out:
                self._findings.undecided += 1
            else:
                by_device.setdefault(row.device_id, []).append(row)
        devices = list(by_device)
        for start in range(0, len(devices), _OWNERS_AT_ONCE):
            chosen = devices[start : start + _OWNERS_AT_ONCE]
            self._compare_devices({device: by_device[device] for device in chosen})
        return self._findings, self._examples[:EXAMPLES]

    def _compare_devices(self, rows: Mapping[str, Sequence[NewestRow]]) -> None:
        served = self._look_up(list(rows))
        for row in (row for of_device in rows.values() for row in of_device):
            if (row.device_id, row.source_table) in served.unserved:
                self._findings.undecided += 1
            else:
                self._compare_row(row, served.values)

    def _compare_row(self, row: NewestRow, served: Mapping[ValueName, Value]) -> None:
        for name, value in self._expected(row):
            self._findings.compared += 1
            found = served.get(name, "nothing")
            if name not in served or found != value:
                self._findings.wrong += 1
                told = f"{name[1]} of {name[0]} at {name[2]} is {found!r}, not {value!r}"
                self._examples.append(told)

    def _expected(self, row: NewestRow) -> Iterator[tuple[ValueName, Value]]:
        instance = instance_of(msgspec.json.decode(row.pk))
        if row.deleted is not None:
            name = (row.device_id, key_of(row.source_table, None), instance)
            yield name, "true" if row.deleted else "false"
        text = None if row.content_key is None else self._texts.get(row.content_key)
        if text is not None:
            for column, value in msgspec.json.decode(text).items():
                yield (row.device_id, key_of(row.source_table, column), instance), _typed(value)


def _typed(value: Any) -> Value:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return value if value is None or isinstance(value, str) else canonical_json(value)


def _served(record: CurrentValueRecord) -> Value:
    return record.value_double if record.kind == "metric" else record.value_text
