"""Current values as they are served: a projection that every drain brings up to date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Label,
    Select,
    and_,
    case,
    collate,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.intake.identities import identities
from ilyama_resources.postgres.copying import SHOWN_NUL, copied_arrow, shown
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import CURRENT_VALUE, LINEAGE, WAREHOUSE

PROVENANCES = ("observed", "calculated", "intended")

Lineage = tuple[str, str]
"""(device_id, source_table)."""


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


_FIELDS = [CURRENT_VALUE.c[name] for name in CurrentValueRecord._fields]
_PLACE = (CURRENT_VALUE.c.owner_id, CURRENT_VALUE.c.source_table, CURRENT_VALUE.c.instance)
_IDENTIFYING = frozenset(
    ("identity", "owner_kind", "owner_id", "key", "instance", "provenance", "source_table")
)
"""What an identity stands for: it is the same in every value of it."""
_ROOM_TO_JOIN = text("SET LOCAL work_mem = '64MB'")
_ORDER = (
    CURRENT_VALUE.c.owner_id,
    collate(CURRENT_VALUE.c.key, "C"),
    collate(CURRENT_VALUE.c.instance, "C"),
    CURRENT_VALUE.c.identity,
)


class CurrentValues:
    """The current values of served lineages.

    A lineage with very many instances is a log rather than a state: it is not served from here.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def unserved(self, lineages: Iterable[Lineage]) -> set[Lineage]:
        """Those of the given lineages that are not served from Postgres."""
        query = select(LINEAGE.c.device_id, LINEAGE.c.source_table).where(
            LINEAGE.c.served.is_(False),
            tuple_(LINEAGE.c.device_id, LINEAGE.c.source_table).in_(these(lineages)),
        )
        return {(device_id, table) for device_id, table in self._connection.execute(query)}

    def stop_serving(self, lineages: Iterable[Lineage]) -> None:
        """Take lineages out of Postgres for good."""
        gone = list(lineages)
        if not gone:
            return
        rows = [{"device_id": d, "source_table": t, "served": False} for d, t in gone]
        statement = insert(LINEAGE)
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["device_id", "source_table"], set_={"served": False}
            ),
            rows,
        )
        lineage = tuple_(CURRENT_VALUE.c.owner_id, CURRENT_VALUE.c.source_table)
        self._connection.execute(delete(CURRENT_VALUE).where(lineage.in_(these(gone))))

    def advance(self, values: pa.Table, *, drain_id: int) -> dict[Lineage, int]:
        """Store values that are newer than what is there.

        Returns the lineages that have new instances, with how many they have now, or more.
        """
        same = _same_everywhere(values)
        told = values.drop_columns([*same])
        incoming = copied_arrow(self._connection, CURRENT_VALUE, told)
        given = {name: incoming.c[name] for name in told.column_names}
        given |= {name: literal(word) for name, word in same.items()}
        given["contributors"] = _contributors(given["source"], given.pop("datapoint_id"))
        given |= {"updated_at": func.now(), "drain_id": literal(drain_id)}
        is_known = CURRENT_VALUE.c.identity == incoming.c.identity
        self._connection.execute(_ROOM_TO_JOIN)
        # Apart, since drains write one after another: an upsert would lock each row before.
        self._connection.execute(
            update(CURRENT_VALUE)
            .values({name: given[name] for name in given if name not in _IDENTIFYING})
            .where(is_known, _outdoes(given))
        )
        # In the order of their index, new entries lie side by side.
        new = select(*given.values()).where(~exists().where(is_known)).order_by(incoming.c.identity)
        statement = insert(CURRENT_VALUE).from_select([*given], new)
        return self._with_instances(statement.returning(*_PLACE).cte("stored"))

    def _with_instances(self, stored: CTE) -> dict[Lineage, int]:
        """Store what is to be stored, and add its instances to those of its lineages."""
        new_instances = select(*stored.c).distinct().subquery()
        lineage = (new_instances.c.owner_id, new_instances.c.source_table)
        new = select(*lineage, literal(True), func.count())
        statement = insert(LINEAGE).from_select(
            ["device_id", "source_table", "served", "instances"], new.group_by(*lineage)
        )
        both = LINEAGE.c.instances + statement.excluded.instances
        rows = self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(LINEAGE.primary_key), set_={"instances": both}
            ).returning(LINEAGE.c.device_id, LINEAGE.c.source_table, LINEAGE.c.instances)
        )
        return {(device_id, table): instances for device_id, table, instances in rows}

    def recount(self, lineages: Iterable[Lineage]) -> dict[Lineage, int]:
        """How many instances the given lineages have, counted anew: a new column counts again."""
        suspects = list(lineages)
        if not suspects:
            return {}
        lineage = (CURRENT_VALUE.c.owner_id, CURRENT_VALUE.c.source_table)
        counted = (
            select(*lineage, func.count(CURRENT_VALUE.c.instance.distinct()).label("instances"))
            .where(tuple_(*lineage).in_(these(suspects)))
            .group_by(*lineage)
            .cte("counted")
        )
        same = (
            LINEAGE.c.device_id == counted.c.owner_id,
            LINEAGE.c.source_table == counted.c.source_table,
        )
        rows = self._connection.execute(
            update(LINEAGE)
            .values(instances=counted.c.instances)
            .where(*same)
            .returning(LINEAGE.c.device_id, LINEAGE.c.source_table, LINEAGE.c.instances)
        )
        return {(device_id, table): instances for device_id, table, instances in rows}

    def of_owners(self, owner_ids: Iterable[str]) -> Iterator[CurrentValueRecord]:
        """The values of some owners."""
        query = select(*_FIELDS).where(CURRENT_VALUE.c.owner_id.in_(list(owner_ids)))
        return self._stream(query)

    def of_device(self, device_id: str, *, key_prefix: str = "") -> list[CurrentValueRecord]:
        """The values of one device."""
        query = select(*_FIELDS).where(
            CURRENT_VALUE.c.owner_id == device_id,
            CURRENT_VALUE.c.key.startswith(key_prefix, autoescape=True),
        )
        return list(self._stream(query.order_by(CURRENT_VALUE.c.key, CURRENT_VALUE.c.instance)))

    def page(
        self, wanted: CurrentValueFilter, *, after: CurrentValuePlace | None, limit: int
    ) -> list[ServedValue]:
        """The next values in the order of device, key and instance."""
        query = select(*_FIELDS, _state()).where(*_narrowed(wanted))
        if after is not None:
            query = query.where(tuple_(*_ORDER) > tuple_(*_literals(after)))
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

    def _stream(self, query: Select[tuple[object, ...]]) -> Iterator[CurrentValueRecord]:
        rows = self._connection.execution_options(yield_per=10_000).execute(query)
        return (CurrentValueRecord(*row) for row in rows)


def _outdoes(given: Mapping[str, ColumnElement[Any]]) -> ColumnElement[bool]:
    """Whether a value is current rather than the one that is there; at one moment, names rank."""
    ranks = ("source", "kind")
    ours = tuple_(*(collate(given[name], "C") for name in ranks))
    theirs = tuple_(*(collate(CURRENT_VALUE.c[name], "C") for name in ranks))
    at_once = and_(given["ts"] == CURRENT_VALUE.c.ts, ours < theirs)
    return or_(given["ts"] > CURRENT_VALUE.c.ts, at_once)


def _contributors(source: ColumnElement[str], datapoint: ColumnElement[str]) -> ColumnElement[str]:
    """What a current value rests on: with one source, the datapoint it is."""
    return func.concat('[{"source":"', source, '","datapoint_id":"', datapoint, '"}]')


def _same_everywhere(values: pa.Table) -> dict[str, str]:
    """The texts that all values have in common: to send them once is enough."""
    texts = {
        name: values[name]
        for name in values.column_names
        if pa.types.is_string(values[name].type) and values[name].null_count == 0
    }
    return {
        name: column[0].as_py()
        for name, column in texts.items()
        if len(column) and pc.all(pc.equal(column, column[0])).as_py() and name != "identity"
    }


def _state() -> Label[str]:
    hours = select(WAREHOUSE.c.stale_after_h).scalar_subquery()
    limit = func.now() - hours * literal(timedelta(hours=1))
    return case((CURRENT_VALUE.c.ts < limit, "stale"), else_="fresh").label("state")


def _literals(place: CurrentValuePlace) -> list[ColumnElement[object]]:
    texts = zip(_ORDER, map(str, place), strict=True)
    return [literal(value, column.type) for column, value in texts]


def _narrowed(wanted: CurrentValueFilter) -> list[ColumnElement[bool]]:
    conditions = [
        column == shown(value)
        for column, value in (
            (CURRENT_VALUE.c.owner_id, wanted.device_id),
            (CURRENT_VALUE.c.key, wanted.key),
            (CURRENT_VALUE.c.instance, wanted.instance),
        )
        if value is not None
    ]
    if wanted.key_prefix:
        prefix = shown(wanted.key_prefix)
        conditions.append(CURRENT_VALUE.c.key.startswith(prefix, autoescape=True))
    return [*conditions, *_probe(wanted)]


def _probe(wanted: CurrentValueFilter) -> list[ColumnElement[bool]]:
    """A value that is named in full is found by its identity, one look per provenance."""
    device_id, key, _, instance = wanted
    if device_id is None or key is None or instance is None:
        return []
    if SHOWN_NUL in shown(device_id + key + instance):
        return []  # It may stand for a U+0000, of which the identity was made.
    names = [
        name
        for provenance in PROVENANCES
        for name in identities(device_id, key, [instance], provenance=provenance)
    ]
    return [CURRENT_VALUE.c.identity.in_(names)]
