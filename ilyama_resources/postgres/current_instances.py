"""Current values as they are stored: instances with all values of theirs, kept up to date."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Subquery,
    Table,
    TableValuedAlias,
    and_,
    any_,
    collate,
    column,
    delete,
    exists,
    func,
    insert,
    literal,
    select,
    text,
    true,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, array
from sqlalchemy.dialects.postgresql import insert as upsert

from ilyama_resources.postgres.copying import copied_arrow
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import CURRENT_INSTANCE, LINEAGE

Lineage = tuple[str, str]
"""(device_id, source_table)."""

_OF_VALUES = {c.name: c.type.item_type for c in CURRENT_INSTANCE.c if isinstance(c.type, ARRAY)}
"""What is told of every value, and the types."""
_STORED = CURRENT_INSTANCE.c
_TO_JOIN = text("SET LOCAL work_mem = '64MB'; SET LOCAL random_page_cost = 1.1")
"""Identities are probed in the index: to read all instances would cost more with each of them."""
_INDEXED_OF_FAMILY = 128
"""An index entry has no room for a longer one beside the longest id of a device."""
_STANDING, _GIVEN = 0, 1


def values_of(instances: FromClause) -> TableValuedAlias:
    """The values of each of some instances, as rows to join with these."""
    lists = [instances.c[name] for name in _OF_VALUES]
    fields = [column(name, of) for name, of in _OF_VALUES.items()]
    return func.unnest(*lists).table_valued(*fields, name="value").render_derived()


def may_be_of_family(family: str) -> ColumnElement[bool]:
    """Whether the indexed beginning of an instance's family is that of the given one."""
    return func.left(_STORED.family, _INDEXED_OF_FAMILY) == family[:_INDEXED_OF_FAMILY]


class CurrentInstances:
    """The instances of served lineages.

    A lineage with very many instances is a log rather than a state: it is not served from here.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def stop_serving(self, lineages: Iterable[Lineage]) -> None:
        """Take lineages out of Postgres for good."""
        gone = list(lineages)
        if not gone:
            return
        wanted = these(gone).subquery()
        statement = upsert(LINEAGE).from_select(
            ["device_id", "source_table", "served", "instances"],
            select(*wanted.c, literal(False), literal(0)).distinct(),
        )
        stopped = self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(LINEAGE.primary_key),
                set_={"served": False},
                where=LINEAGE.c.served,
            ).returning(LINEAGE.c.device_id, LINEAGE.c.source_table)
        ).all()
        # Drains tell of a crowded lineage again and again; there is nothing of it any more.
        if stopped:
            self._forget(these((device_id, table) for device_id, table in stopped).subquery())

    def _forget(self, lineages: Subquery) -> None:
        """Remove the values of lineages; an instance that others tell of too keeps theirs."""
        device_id, table = lineages.c
        touched = and_(_STORED.owner_id == device_id, table == any_(_STORED.source_table))
        touching = exists(select(device_id).where(touched))
        value = values_of(CURRENT_INSTANCE)
        is_gone = tuple_(_STORED.owner_id, value.c.source_table).in_(select(device_id, table))
        left = (
            select(_STORED.identity, *_packed(value))
            .select_from(CURRENT_INSTANCE.join(value, true()))
            .where(_STORED.owner_id.in_(select(device_id)), touching, ~is_gone)
            .group_by(_STORED.identity)
            .cte("left_over")
        )
        self._connection.execute(
            update(CURRENT_INSTANCE)
            .values({name: left.c[name] for name in _MOVING})
            .where(_STORED.identity == left.c.identity)
        )
        self._connection.execute(delete(CURRENT_INSTANCE).where(touched))

    def advance(self, instances: pa.Table, *, drain_id: int) -> dict[Lineage, int]:
        """Store values that are newer than what is there.

        Returns the lineages that have new instances, with how many they have now, or more.
        """
        incoming = copied_arrow(self._connection, CURRENT_INSTANCE, instances)
        stamped = _stamped(incoming, drain_id)
        self._connection.execute(_TO_JOIN)
        grown = self._count(incoming)
        self._merge(stamped)
        self._replace(stamped)
        self._add(stamped)
        return grown

    def _count(self, incoming: Table) -> dict[Lineage, int]:
        """Add instances that a lineage tells of for the first time to those that it has."""
        source_table = func.unnest(incoming.c.source_table).label("source_table")
        told = select(incoming.c.identity, incoming.c.owner_id, source_table).distinct().subquery()
        is_known = exists().where(
            _STORED.identity == told.c.identity,
            told.c.source_table == any_(_STORED.source_table),
        )
        lineage = (told.c.owner_id, told.c.source_table)
        new = select(*lineage, literal(True), func.count()).where(~is_known).group_by(*lineage)
        statement = upsert(LINEAGE).from_select(
            ["device_id", "source_table", "served", "instances"], new
        )
        both = LINEAGE.c.instances + statement.excluded.instances
        rows = self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(LINEAGE.primary_key), set_={"instances": both}
            ).returning(LINEAGE.c.device_id, LINEAGE.c.source_table, LINEAGE.c.instances)
        )
        return {(device_id, table): instances for device_id, table, instances in rows}

    def _merge(self, given: Subquery) -> None:
        """Where not all is newer, or not all is told, the newest of every key stays."""
        common = _STORED.identity == given.c.identity
        sides = [
            select(side.c.identity, *value.c, literal(place).label("place"))
            .select_from(CURRENT_INSTANCE.join(given, common).join(value, true()))
            .where(~_replaces(given))
            for place, side in ((_STANDING, CURRENT_INSTANCE), (_GIVEN, given))
            for value in [values_of(side)]
        ]
        told = union_all(*sides).subquery()
        key = (told.c.identity, collate(told.c.key, "C"))
        newest = select(told).distinct(*key).order_by(*key, *_by_rank(told)).subquery()
        merged = (
            select(newest.c.identity, *_packed(newest))
            .group_by(newest.c.identity)
            .having(func.bool_or(newest.c.place == _GIVEN))
            .subquery()
        )
        self._connection.execute(
            update(CURRENT_INSTANCE)
            .values({name: merged.c[name] for name in _MOVING})
            .where(_STORED.identity == merged.c.identity)
        )

    def _replace(self, given: Subquery) -> None:
        self._connection.execute(
            update(CURRENT_INSTANCE)
            .values({name: given.c[name] for name in _MOVING})
            .where(_STORED.identity == given.c.identity, _replaces(given))
        )

    def _add(self, given: Subquery) -> None:
        is_known = exists().where(_STORED.identity == given.c.identity)
        # In the order of their index, new entries lie side by side.
        new = select(given).where(~is_known).order_by(given.c.identity)
        self._connection.execute(insert(CURRENT_INSTANCE).from_select(given.c.keys(), new))

    def recount(self, lineages: Iterable[Lineage]) -> dict[Lineage, int]:
        """How many instances the given lineages have, counted anew."""
        suspects = list(lineages)
        if not suspects:
            return {}
        value = values_of(CURRENT_INSTANCE)
        lineage = (_STORED.owner_id, value.c.source_table)
        counted = (
            select(*lineage, func.count(_STORED.instance.distinct()).label("instances"))
            .select_from(CURRENT_INSTANCE.join(value, true()))
            .where(tuple_(*lineage).in_(these(suspects)))
            .group_by(*lineage)
            .cte("counted")
        )
        same = (
            LINEAGE.c.device_id == counted.c.owner_id,
            LINEAGE.c.source_table == counted.c.source_table,
        )
        is_suspect = tuple_(LINEAGE.c.device_id, LINEAGE.c.source_table).in_(these(suspects))
        # Of one whose values were all outdone by others, there is nothing to count.
        self._connection.execute(update(LINEAGE).values(instances=0).where(is_suspect))
        rows = self._connection.execute(
            update(LINEAGE)
            .values(instances=counted.c.instances)
            .where(*same)
            .returning(LINEAGE.c.device_id, LINEAGE.c.source_table, LINEAGE.c.instances)
        )
        return {(device_id, table): instances for device_id, table, instances in rows}


_MOVING = ("oldest", "newest", *_OF_VALUES)
"""What changes of an instance; the rest is what its identity stands for."""


def _stamped(incoming: Table, drain_id: int) -> Subquery:
    """What came in, with the drain and the moment of every value."""
    of_all = array([func.cardinality(incoming.c.key)])
    drains = func.array_fill(literal(drain_id, BigInteger), of_all)
    moments = func.array_fill(func.now(), of_all)
    stamps = (drains.label("drain_id"), moments.label("updated_at"))
    return select(*incoming.c, *stamps).subquery("given")


def _replaces(given: Subquery) -> ColumnElement[bool]:
    """Whether each value that stands has a newer one: nothing has to be compared by key."""
    return and_(given.c.key == _STORED.key, given.c.oldest > _STORED.newest)


def _by_rank(told: Subquery) -> list[ColumnElement[Any]]:
    """The newest first; at one moment names rank, and then what stands stays."""
    names = (collate(told.c[name], "C") for name in ("source", "kind"))
    return [told.c.ts.desc(), *names, told.c.place]


def _packed(values: FromClause) -> list[ColumnElement[Any]]:
    """Values as the lists of an instance, by key."""
    by_key = collate(values.c.key, "C")
    lists = [
        func.array_agg(aggregate_order_by(values.c[name], by_key)).label(name)
        for name in _OF_VALUES
    ]
    moments = (func.min(values.c.ts).label("oldest"), func.max(values.c.ts).label("newest"))
    return [*moments, *lists]
