"""Current values as they are served: a point read is an index probe, a device's a short scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Label,
    Select,
    case,
    collate,
    func,
    literal,
    select,
    true,
    tuple_,
)

from ilyama_protocol.intake.identities import family_of, identities
from ilyama_resources.postgres.copying import SHOWN_NUL, shown
from ilyama_resources.postgres.current_instances import Lineage, may_be_of_family, values_of
from ilyama_resources.postgres.schema import CURRENT_INSTANCE, LINEAGE, WAREHOUSE

PROVENANCES = ("observed", "calculated", "intended")
POLICY = "latest"


class CurrentValueRecord(NamedTuple):
    """A current value as Postgres holds it."""

    identity: str
    owner_kind: str
    owner_id: str
    key: str
    instance: str
    provenance: str
    kind: str
    value_double: float | None
    value_text: str | None
    ts: datetime
    source: str
    policy: str
    contributors: str
    updated_at: datetime
    source_table: str
    drain_id: int


class CurrentValueFilter(NamedTuple):
    """Which current values are asked for; what is None does not narrow."""

    device_id: str | None = None
    key: str | None = None
    key_prefix: str | None = None
    instance: str | None = None


class CurrentValuePlace(NamedTuple):
    """Where a page of current values ended."""

    owner_id: str
    key: str
    instance: str
    identity: UUID


class ServedValue(NamedTuple):
    """A current value with the word for its age."""

    record: CurrentValueRecord
    state: str

    @property
    def place(self) -> CurrentValuePlace:
        """Where a page that ends with this value ends."""
        found = self.record
        identity = UUID(found.identity)
        return CurrentValuePlace(found.owner_id, found.key, found.instance, identity)


_INSTANCE = CURRENT_INSTANCE.c
_VALUE = values_of(CURRENT_INSTANCE)
_VALUES = CURRENT_INSTANCE.join(_VALUE, true())
_MADE = {
    "policy": literal(POLICY).label("policy"),
    # With one source, what a value rests on is the datapoint it is.
    "contributors": func.concat(
        '[{"source":"', _VALUE.c.source, '","datapoint_id":"', _VALUE.c.datapoint_id, '"}]'
    ).label("contributors"),
}
_FIELDS: list[ColumnElement[Any]] = [
    _MADE[name] if name in _MADE else _VALUE.c[name] if name in _VALUE.c else _INSTANCE[name]
    for name in CurrentValueRecord._fields
]
_ORDER = (
    _INSTANCE.owner_id,
    collate(_VALUE.c.key, "C"),
    collate(_INSTANCE.instance, "C"),
    _INSTANCE.identity,
)


class CurrentValues:
    """The current values of served lineages."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of_owners(self, owner_ids: Iterable[str]) -> Iterator[CurrentValueRecord]:
        """The values of some owners."""
        return self._stream(_selected().where(_INSTANCE.owner_id.in_(list(owner_ids))))

    def of_device(self, device_id: str, *, key_prefix: str = "") -> list[CurrentValueRecord]:
        """The values of one device."""
        wanted = CurrentValueFilter(device_id, key_prefix=key_prefix)
        query = _selected().where(*_narrowed(wanted))
        return list(self._stream(query.order_by(_VALUE.c.key, _INSTANCE.instance)))

    def page(
        self, wanted: CurrentValueFilter, *, after: CurrentValuePlace | None, limit: int
    ) -> list[ServedValue]:
        """The next values in the order of device, key and instance."""
        query = _selected(_state()).where(*_narrowed(wanted))
        if after is not None:
            # Said of the device alone too, since that has an index.
            query = query.where(
                _INSTANCE.owner_id >= after.owner_id, tuple_(*_ORDER) > tuple_(*_literals(after))
            )
        rows = self._connection.execute(query.order_by(*_ORDER).limit(limit))
        return [ServedValue(CurrentValueRecord(*row[:-1]), row[-1]) for row in rows]

    def unserved_tables(self, device_id: str) -> list[str]:
        """The source tables of a device that are not served from Postgres."""
        query = select(LINEAGE.c.source_table).where(
            LINEAGE.c.device_id == shown(device_id), LINEAGE.c.served.is_(False)
        )
        return list(self._connection.scalars(query.order_by(LINEAGE.c.source_table)))

    def unserved_of(self, device_ids: Iterable[str]) -> set[Lineage]:
        """The lineages of some devices that are not served from Postgres."""
        query = select(LINEAGE.c.device_id, LINEAGE.c.source_table).where(
            LINEAGE.c.served.is_(False), LINEAGE.c.device_id.in_(list(device_ids))
        )
        rows = self._connection.execute(query)
        return {(device_id, table) for device_id, table in rows}

    def _stream(self, query: Select[Any]) -> Iterator[CurrentValueRecord]:
        rows = self._connection.execute(query, execution_options={"yield_per": 10_000})
        return (CurrentValueRecord(*row) for row in rows)


def _selected(*more: ColumnElement[Any]) -> Select[Any]:
    return select(*_FIELDS, *more).select_from(_VALUES)


def _state() -> Label[str]:
    hours = select(WAREHOUSE.c.stale_after_h).scalar_subquery()
    limit = func.now() - hours * literal(timedelta(hours=1))
    return case((_VALUE.c.ts < limit, "stale"), else_="fresh").label("state")


def _literals(place: CurrentValuePlace) -> list[ColumnElement[object]]:
    texts = zip(_ORDER, map(str, place), strict=True)
    return [literal(value, column.type) for column, value in texts]


def _narrowed(wanted: CurrentValueFilter) -> list[ColumnElement[bool]]:
    conditions = [
        column == shown(value)
        for column, value in (
            (_INSTANCE.owner_id, wanted.device_id),
            (_INSTANCE.instance, wanted.instance),
            (_VALUE.c.key, wanted.key),
        )
        if value is not None
    ]
    family = _family(wanted)
    if family is not None:
        conditions.append(may_be_of_family(shown(family)))
    if wanted.key_prefix:
        prefix = shown(wanted.key_prefix)
        conditions.append(_VALUE.c.key.startswith(prefix, autoescape=True))
    return [*conditions, *_probe(wanted)]


def _family(wanted: CurrentValueFilter) -> str | None:
    """The family of all keys that are asked for, if what else is said of them tells it."""
    if wanted.key is not None:
        return family_of(wanted.key)
    prefix = wanted.key_prefix or ""
    return family_of(prefix) if "." in prefix else None


def _probe(wanted: CurrentValueFilter) -> list[ColumnElement[bool]]:
    """A value that is named in full is found by its identity, one look per provenance."""
    device_id, key, _, instance = wanted
    if device_id is None or key is None or instance is None:
        return []
    if SHOWN_NUL in shown(device_id + key + instance):
        return []  # It may stand for a U+0000, of which the identity was made.
    names = [
        str(UUID(bytes=name))
        for provenance in PROVENANCES
        for name in identities(device_id, family_of(key), [instance], provenance=provenance)
    ]
    return [_INSTANCE.identity.in_(names)]
