"""Classification: how a new schema of a lineage compares with what was accepted before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import msgspec

from ilyama_protocol.fingerprint import Affinity, SchemaColumn

Columns = tuple[SchemaColumn, ...]


class SchemaClass(StrEnum):
    """What a schema that is new to its lineage is."""

    COMPATIBLE_MAPPED = "compatible_mapped"
    COMPATIBLE_ADDITIVE = "compatible_additive"
    AMBIGUOUS = "ambiguous"
    BREAKING = "breaking"
    UNKNOWN = "unknown"


class SchemaDiff(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the columns of a schema differ from those accepted last; each list is sorted.

    The affinity of a column is compared with that which it had when it was accepted last, be it in
    an older schema.
    """

    added: tuple[str, ...] = ()
    added_not_null: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    affinity_changed: tuple[str, ...] = ()
    pk_changed: tuple[str, ...] = ()
    null_rule_changed: tuple[str, ...] = ()
    unlike_device_table: tuple[str, ...] = ()
    unbound: tuple[str, ...] = ()
    under_one_key: tuple[str, ...] = ()
    """Columns that older bindings put under one datapoint key; so they are unbound too."""

    @property
    def breaks(self) -> bool:
        """Whether something that was relied on is no longer so."""
        return any(
            (
                self.affinity_changed,
                self.dropped,
                self.pk_changed,
                self.added_not_null,
                self.unlike_device_table,
            )
        )

    @property
    def only_adds(self) -> bool:
        """Whether there are new columns, and nothing else is different or in question."""
        unclear = self.breaks or self.null_rule_changed or self.under_one_key
        return bool(self.added) and not unclear


@dataclass(frozen=True)
class NewSchema:
    """A schema that is new to its lineage, beside all that it is compared with.

    `columns` is None when the device never sent them, `last_accepted` when nothing was accepted
    before or its columns are not known. It is the `first` when no batch came with another before.
    `device_table` are the affinities of the table that the project's devices share, `affinities`
    those that columns had in the newest of the accepted schemas that show them. `rejected` tells
    that a person refused it to its device.
    """

    columns: Columns | None
    last_accepted: Columns | None = None
    bound: frozenset[str] = frozenset()
    approved: bool = False
    first: bool = False
    accepted_before: bool = True
    device_table: Mapping[str, str] = field(default_factory=dict)
    affinities: Mapping[str, str] = field(default_factory=dict)
    under_one_key: frozenset[str] = frozenset()
    rejected: bool = False

    @property
    def needs_a_person(self) -> bool:
        """Whether no policy may accept it, whatever its class."""
        return not self.approved and (self.rejected or bool(self.under_one_key))

    @cached_property
    def diff(self) -> SchemaDiff:
        """The columns compared; empty where there is nothing to compare."""
        if self.columns is None:
            return SchemaDiff()
        last = {c.name: _affinity(c) for c in self.last_accepted or ()}
        bound = self.bound - self.under_one_key
        diff = SchemaDiff(
            affinity_changed=_unlike(self.columns, {**self.affinities, **last}),
            unlike_device_table=_unlike(self.columns, self.device_table),
            unbound=_sorted(c.name for c in self.columns if c.name not in bound),
            under_one_key=_sorted(self.under_one_key),
        )
        if self.last_accepted is None:
            return diff
        return _compared(self.last_accepted, self.columns, diff)


class Rule(NamedTuple):
    """One line of the table: the first that fits names the class."""

    fits: Callable[[NewSchema], bool]
    schema_class: SchemaClass


def _is_approved(schema: NewSchema) -> bool:
    return schema.approved


def _is_breaking(schema: NewSchema) -> bool:
    return schema.diff.breaks


def _is_bound(schema: NewSchema) -> bool:
    return bool(schema.columns) and not schema.diff.unbound


def _is_additive(schema: NewSchema) -> bool:
    return schema.diff.only_adds


def _is_ambiguous(schema: NewSchema) -> bool:
    comparable = schema.last_accepted is not None or not schema.accepted_before
    return schema.first or schema.columns is None or (comparable and bool(schema.diff.unbound))


def _cannot_be_compared(_: NewSchema) -> bool:
    return True


RULES = (
    Rule(_is_approved, SchemaClass.COMPATIBLE_MAPPED),
    Rule(_is_breaking, SchemaClass.BREAKING),
    Rule(_is_bound, SchemaClass.COMPATIBLE_MAPPED),
    Rule(_is_additive, SchemaClass.COMPATIBLE_ADDITIVE),
    Rule(_is_ambiguous, SchemaClass.AMBIGUOUS),
    Rule(_cannot_be_compared, SchemaClass.UNKNOWN),
)


def classify(schema: NewSchema) -> SchemaClass:
    """The class of a schema: that of the first rule that fits."""
    return next(rule.schema_class for rule in RULES if rule.fits(schema))


def _compared(before: Columns, after: Columns, diff: SchemaDiff) -> SchemaDiff:
    old, new = _by_name(before), _by_name(after)
    both = old.keys() & new.keys()
    added = new.keys() - old.keys()
    return msgspec.structs.replace(
        diff,
        added=_sorted(added),
        added_not_null=_sorted(name for name in added if new[name].not_null),
        dropped=_sorted(old.keys() - new.keys()),
        pk_changed=_pk_changes(old, new),
        null_rule_changed=_sorted(n for n in both if old[n].not_null != new[n].not_null),
    )


def _pk_changes(
    old: Mapping[str, SchemaColumn], new: Mapping[str, SchemaColumn]
) -> tuple[str, ...]:
    """The columns that have another place in the primary key, or are in one of the two only."""
    names = old.keys() | new.keys()
    return _sorted(name for name in names if _pk_place(old.get(name)) != _pk_place(new.get(name)))


def _pk_place(column: SchemaColumn | None) -> int:
    return 0 if column is None else column.pk_ordinal


def _unlike(columns: Columns, affinities: Mapping[str, str]) -> tuple[str, ...]:
    return _sorted(c.name for c in columns if affinities.get(c.name, _affinity(c)) != _affinity(c))


def _affinity(column: SchemaColumn) -> Affinity:
    return column.decl_type_affinity


def _by_name(columns: Columns) -> dict[str, SchemaColumn]:
    return {column.name: column for column in columns}


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
