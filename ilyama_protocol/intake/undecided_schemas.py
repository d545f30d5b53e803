"""What was ruled on schemas that wait for a person, remembered for the batches that follow."""

from __future__ import annotations

from ilyama_protocol.intake.lineage_rulings import TableBatch
from ilyama_protocol.intake.schema_rulings import Ruled
from ilyama_protocol.intake.state import BoundSchema


class UndecidedSchemas:
    """The rulings that asked for reviews, so that each further batch costs a look.

    It holds whatever the moment and the pauses, until something else is accepted of the lineage or
    the columns of another of its schemas become known: an approval may mean those.
    """

    def __init__(self) -> None:
        self._ruled: dict[str, dict[tuple[str, bool], Ruled]] = {}

    def ruled(self, batch: TableBatch, schema: BoundSchema | None) -> Ruled | None:
        """What was ruled before on a schema, with as much known of it as now."""
        of_table = self._ruled.get(batch.source_table)
        return None if of_table is None else of_table.get((batch.schema_hash, schema is None))

    def remember(self, batch: TableBatch, schema: BoundSchema | None, ruled: Ruled) -> None:
        """Remember a ruling that asks for a review."""
        if ruled.question is not None:
            of_table = self._ruled.setdefault(batch.source_table, {})
            of_table[batch.schema_hash, schema is None] = ruled

    def forget(self, source_table: str) -> None:
        """Let what comes next of a table be ruled on anew."""
        self._ruled.pop(source_table, None)

    def forget_one(self, source_table: str, schema_hash: str) -> None:
        """The same of one schema."""
        of_table = self._ruled.get(source_table, {})
        for is_unknown in (True, False):
            of_table.pop((schema_hash, is_unknown), None)
