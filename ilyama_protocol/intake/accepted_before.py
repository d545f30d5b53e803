"""What a lineage had accepted before a new schema came, and how the new one compares with it."""

from __future__ import annotations

from collections.abc import Mapping

from ilyama_protocol.governance.bindings import (
    SILENT,
    Actions,
    Binding,
    decided_columns,
    joined,
    meeting,
    stored_actions,
)
from ilyama_protocol.governance.classification import Columns, NewSchema
from ilyama_protocol.governance.rules import TableRules
from ilyama_protocol.intake.state import LineageState


class AcceptedBefore:
    """What a lineage had accepted before a new schema came, and its project approved."""

    def __init__(
        self,
        source_table: str,
        lineage: LineageState,
        accepted: Mapping[str, Binding],
        rules: TableRules,
    ) -> None:
        self.last = max(accepted, key=lambda name: accepted[name].holds_from, default=None)
        self._columns = {
            schema_hash: lineage.schemas[schema_hash].columns
            for schema_hash in accepted
            if schema_hash in lineage.schemas
        }
        self._bindings = [(rules.bound.keys(), Binding(0, rules.bound))] + [
            ([column.name for column in columns], accepted[schema_hash])
            for schema_hash, columns in self._columns.items()
        ]
        self._device_table = rules.device_table
        self._source_table = source_table
        self._accepted = accepted

    def compared_with(
        self, columns: Columns | None, *, is_first: bool, approved: bool, rejected: bool
    ) -> NewSchema:
        """A new schema beside what was there before."""
        bound = [decided_columns(names, binding) for names, binding in self._bindings]
        return NewSchema(
            columns,
            None if self.last is None else self._columns.get(self.last),
            frozenset().union(*bound),
            approved=approved,
            first=is_first and self.last is None,
            accepted_before=self.last is not None,
            device_table=self._device_table,
            affinities=self._affinities(),
            under_one_key=under_one_key(self._source_table, self._joined(columns or ())),
            rejected=rejected,
        )

    def inherited_by(self, columns: Columns | None) -> Actions | None:
        """What older bindings say of the columns; new ones are mirrored."""
        return None if columns is None else stored_actions(self._joined(columns))

    def _joined(self, columns: Columns) -> Actions:
        return joined(self._bindings, [column.name for column in columns])

    def _affinities(self) -> dict[str, str]:
        """The affinity of each column in the newest schema that has it, unless it is silent there.

        An approval of a column that is gone does not make it another when it comes back.
        """
        known: dict[str, str] = {}
        for schema_hash in sorted(self._columns, key=lambda name: self._accepted[name].holds_from):
            for column in self._columns[schema_hash]:
                known[column.name] = column.decl_type_affinity
                if self._accepted[schema_hash].action(column.name).verb in SILENT:
                    del known[column.name]
        return known


def under_one_key(source_table: str, actions: Actions) -> frozenset[str]:
    """The columns of one row that share a datapoint key with another."""
    taken = meeting(source_table, actions)
    return frozenset({*taken, *taken.values()})
