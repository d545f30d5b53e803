"""Bindings: what becomes of each column of an accepted schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from ilyama_protocol.fingerprint import METRIC_AFFINITIES, SchemaColumn
from ilyama_protocol.governance.policies import Policy
from ilyama_protocol.identifiers import key_fault, key_of


class Verb(StrEnum):
    """What is done with a column."""

    MIRROR = "mirror"
    MAP = "map"
    AUTO_CREATE_AND_MAP = "auto_create_and_map"
    IGNORE = "ignore"
    DEFER = "defer"


SILENT = frozenset({Verb.IGNORE, Verb.DEFER})
"""A column of these gives no datapoint; its values stay in the row changes."""

NAMES_A_KEY = frozenset({Verb.MAP, Verb.AUTO_CREATE_AND_MAP})


class ColumnAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is done with one column, and under which datapoint key when not the usual one."""

    verb: Verb = Verb.MIRROR
    key: str | None = None


MIRRORED = ColumnAction()
DEFERRED = ColumnAction(Verb.DEFER)
Actions = dict[str, ColumnAction]


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """What is done with the columns of a schema, and the received_at from which it holds.

    Without actions every column is mirrored and mapped to its usual key. A column that the actions
    do not name can only be one that the device never announced.
    """

    holds_from: int
    actions: Actions | None = None
    decided: dict[str, int] | None = None
    """Columns that were left for later, and the received_at from which they no longer are."""
    only_named: bool = False
    """Whether a column that the actions do not name is left for later: nobody has approved it."""

    @classmethod
    def approved(cls, holds_from: int, actions: Actions | None) -> Binding:
        """What a person has approved."""
        return cls(holds_from, actions, only_named=actions is not None)

    def action(self, column: str) -> ColumnAction:
        """What is done with a column."""
        unnamed = DEFERRED if self.only_named else MIRRORED
        return (self.actions or {}).get(column, unnamed)

    @property
    def deferred(self) -> list[str]:
        """The columns that are left for later."""
        actions = self.actions or {}
        return [name for name, action in actions.items() if action.verb is Verb.DEFER]

    def at(self, received_at: int) -> Binding:
        """The binding as it was in force at a moment."""
        later = [name for name, since in (self.decided or {}).items() if received_at < since]
        if not later:
            return self
        actions = (self.actions or {}) | dict.fromkeys(later, DEFERRED)
        return Binding(self.holds_from, actions, only_named=self.only_named)

    def deciding(self, actions: Actions, *, since: int) -> Binding:
        """The binding with columns decided that were left for later."""
        decided = (self.decided or {}) | dict.fromkeys(actions, since)
        return Binding(self.holds_from, (self.actions or {}) | actions, decided, self.only_named)

    def keys(self, source_table: str, columns: Iterable[str]) -> dict[str, str]:
        """The datapoint keys of the columns that give datapoints, each of one column only.

        Of two under one key that with an action has it, and of two with actions the first by name:
        a row has one value of a key, whatever was bound before that was made sure of.
        """
        if self.actions is None:
            return {column: key_of(source_table, column) for column in columns}
        owners = _owners(source_table, self.actions)
        keys = ((name, key_under(self.action(name), source_table, name)) for name in columns)
        return {name: key for name, key in keys if key and owners.get(key, name) == name}


USUAL = Binding(0)
"""Every column under its usual key."""


class ActionFault(NamedTuple):
    """Why a set of actions cannot be approved."""

    column: str
    sentence: str


def key_under(action: ColumnAction, source_table: str, column: str) -> str | None:
    """The datapoint key that an action gives a column."""
    if action.verb in SILENT:
        return None
    return action.key or key_of(source_table, column)


def meeting(source_table: str, actions: Actions) -> dict[str, str]:
    """The columns whose key another column of their row has, each with that other.

    They would be two values of one key at one moment.
    """
    owners = _owners(source_table, actions)
    keys = ((name, key_under(action, source_table, name)) for name, action in actions.items())
    return {name: owners[key] for name, key in keys if key and owners[key] != name}


def _owners(source_table: str, actions: Actions) -> dict[str, str]:
    """The column that each key is of: of several, the first by name."""
    owners: dict[str, str] = {}
    for column, action in sorted(actions.items()):
        key = key_under(action, source_table, column)
        if key is not None:
            owners.setdefault(key, column)
    return owners


def mirrored(columns: Iterable[str]) -> Actions:
    """Mirror and map everything under the usual keys."""
    return dict.fromkeys(columns, MIRRORED)


def stored_actions(actions: Actions) -> Actions | None:
    """The actions as a binding keeps them: nothing when all are the usual ones."""
    return None if all(action == MIRRORED for action in actions.values()) else actions


def shared_affinities(columns: Iterable[SchemaColumn], actions: Actions | None) -> dict[str, str]:
    """The affinities that a bound schema gives columns of the device table."""
    chosen = Binding.approved(0, actions)
    return {
        column.name: column.decl_type_affinity.value
        for column in columns
        if chosen.action(column.name).verb not in SILENT
    }


def keeps_paused(actions: Actions, columns: Iterable[SchemaColumn]) -> bool:
    """Whether a column without which no row is whole is left for later."""
    needed = (c.name for c in columns if c.not_null or c.pk_ordinal)
    return any(actions.get(name, MIRRORED).verb is Verb.DEFER for name in needed)


def decided_columns(names: Iterable[str], binding: Binding) -> frozenset[str]:
    """The columns that are bound: all of those named, but for the deferred ones."""
    return frozenset(n for n in names if binding.action(n).verb is not Verb.DEFER)


def joined(bindings: Iterable[tuple[Iterable[str], Binding]], names: Iterable[str]) -> Actions:
    """What older bindings, the newest last, say of these columns."""
    known: Actions = {}
    for columns, binding in bindings:
        known |= {name: binding.action(name) for name in columns}
    return {name: known.get(name, MIRRORED) for name in names}


def created_keys(source_table: str, actions: Actions) -> dict[str, str]:
    """The keys that an approval creates, by column."""
    return {
        column: action.key or key_of(source_table, column)
        for column, action in actions.items()
        if action.verb is Verb.AUTO_CREATE_AND_MAP
    }


def kind_of(column: SchemaColumn) -> str:
    """The kind of datapoint that a column gives."""
    return "metric" if column.decl_type_affinity in METRIC_AFFINITIES else "state"


class Approval(NamedTuple):
    """A set of actions beside what it is checked against.

    `kinds` are the kinds of the datapoint keys that exist; `typed` the columns that a device
    announced, empty where it never did.
    """

    source_table: str
    columns: tuple[str, ...]
    actions: Actions
    policy: Policy
    kinds: Mapping[str, str]
    typed: tuple[SchemaColumn, ...] = ()

    def faults(self) -> list[ActionFault]:
        """Everything that keeps the actions from being approved, by column."""
        rules = (self._misnamed, self._wrong_keys, self._not_allowed, self._meeting)
        return [fault for rule in rules for fault in rule()]

    def faults_of_later(self, decided: Actions) -> list[ActionFault]:
        """The same of columns that are decided after the others, which stand as they are.

        Of a schema that was never announced, rows may have columns that nobody saw before.
        """
        left = {n for n, action in self.actions.items() if action.verb is Verb.DEFER}
        left |= {*(self.columns if self.typed else decided)} - self.actions.keys()
        unfit = [
            ActionFault(name, "it was not left for later, or is again")
            for name, action in sorted(decided.items())
            if name not in left or action.verb is Verb.DEFER
        ]
        columns = tuple(dict.fromkeys((*self.columns, *decided)))
        standing = self.faults()
        whole = self._replace(columns=columns, actions=self.actions | decided)
        return unfit or [fault for fault in whole.faults() if fault not in standing]

    def _misnamed(self) -> Iterator[ActionFault]:
        for column in self.columns:
            if column not in self.actions:
                yield ActionFault(column, "an approval names an action for every column")
        for column in self.actions.keys() - {*self.columns}:
            yield ActionFault(column, "the schema has no such column")

    def _wrong_keys(self) -> Iterator[ActionFault]:
        kinds = {column.name: kind_of(column) for column in self.typed}
        for column, action in self.actions.items():
            if action.key is not None and action.verb not in NAMES_A_KEY:
                yield ActionFault(column, f"{action.verb} takes no datapoint key")
            elif action.key is not None and (fault := key_fault(action.key)) is not None:
                yield ActionFault(column, fault)
            elif action.verb is Verb.MAP or action.key in self.kinds:
                yield from self._wrong_target(column, action.key, kinds.get(column))

    def _wrong_target(
        self, column: str, key: str | None, kind: str | None
    ) -> Iterator[ActionFault]:
        if key is None:
            yield ActionFault(column, "map names an existing datapoint key")
        elif key not in self.kinds:
            yield ActionFault(column, f"there is no datapoint key {key}")
        elif kind is not None and self.kinds[key] != kind:
            sentence = f"{key} is of kind {self.kinds[key]}, the column of kind {kind}"
            yield ActionFault(column, sentence)

    def _not_allowed(self) -> Iterator[ActionFault]:
        if self.policy.allow_auto_create_datapoints:
            return
        for column in created_keys(self.source_table, self.actions):
            yield ActionFault(column, "the policy does not allow to create datapoint keys")

    def _meeting(self) -> Iterator[ActionFault]:
        for column, other in sorted(meeting(self.source_table, self.actions).items()):
            key = key_under(self.actions[column], self.source_table, column)
            yield ActionFault(column, f"its key {key} is taken by {other}")
