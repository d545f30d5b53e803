"""What the engine remembers of devices, as it is kept between drains.

A schema is named by the hash of its columns, and the tables of a fleet are much alike: a state
keeps the hashes, and the columns of each are kept once for all devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.governance.bindings import Binding
from ilyama_protocol.intake.state import (
    BatchMark,
    BoundSchema,
    DeviceState,
    LineageState,
    Mark,
    TelemetryState,
    decode_state,
    encode_state,
)
from ilyama_resources.postgres.copying import copied
from ilyama_resources.postgres.governance.shelved_schemas import ShelvedSchemas
from ilyama_resources.postgres.governance.table_schemas import Columns, TableSchemas
from ilyama_resources.postgres.schema import DEVICE_STATE

STATES_AT_ONCE = 1_000
"""Of a fleet under review only so many are in memory together."""


class KeptLineage(msgspec.Struct, omit_defaults=True):
    """A lineage as it is kept: of its schemas, the hash and the moment from which it holds."""

    watermarks: dict[str, int] = {}
    floors: dict[str, int] = {}
    schemas: dict[str, int] = {}
    marks: dict[str, list[Mark]] = {}
    telemetry: TelemetryState = msgspec.field(default_factory=TelemetryState)
    failures: int = 0
    accepted: dict[str, Binding] | None = None
    first_schema: str | None = None


class KeptState(msgspec.Struct, omit_defaults=True):
    """A device as it is kept."""

    next_received_at: int | None = None
    epochs: dict[str, int] = {}
    lineages: dict[str, KeptLineage] = {}
    batch_id: str = ""
    batch_marks: list[BatchMark] = []
    spans: dict[str, tuple[int, int]] = {}


class _BoundLineage(msgspec.Struct):
    schemas: dict[str, int] = {}


class _BoundState(msgspec.Struct):
    """Of a device, as it is kept, only from when which schemas hold."""

    lineages: dict[str, _BoundLineage] = {}


class DeviceStates:
    """The states of devices."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._schemas = TableSchemas(connection)
        self._shelf = ShelvedSchemas(connection)

    def of(self, device_ids: Iterable[str]) -> dict[str, str]:
        """The states of the given devices that have one, whole again."""
        query = select(DEVICE_STATE.c.device_id, DEVICE_STATE.c.state)
        rows = self._connection.execute(query.where(DEVICE_STATE.c.device_id.in_(list(device_ids))))
        kept = {device_id: _kept_decoder.decode(state) for device_id, state in rows}
        for device_id, table, schema_hash, holds_from in self._shelf.accepted(kept):
            lineage = kept[device_id].lineages.setdefault(table, KeptLineage())
            lineage.schemas[schema_hash] = holds_from
        columns = self._columns(kept.values())
        return {
            device_id: encode_state(_whole(state, columns)).decode()
            for device_id, state in kept.items()
        }

    def bound_since(
        self, source_table: str, schema_hash: str, *, device_ids: Iterable[str]
    ) -> dict[str, int]:
        """From when the columns of a schema hold, of those devices that announced them.

        What lies on the shelf was announced first, and is part of the state once it is accepted.
        """
        wanted, since = [*device_ids], dict[str, int]()
        for begin in range(0, len(wanted), STATES_AT_ONCE):
            for name, lineages in self._bound(wanted[begin : begin + STATES_AT_ONCE]):
                schemas = lineages[source_table].schemas if source_table in lineages else {}
                if schema_hash in schemas:
                    since[name] = schemas[schema_hash]
        return since | self._shelf.since(source_table, schema_hash, device_ids=wanted)

    def _bound(self, device_ids: list[str]) -> Iterator[tuple[str, dict[str, _BoundLineage]]]:
        query = select(DEVICE_STATE.c.device_id, DEVICE_STATE.c.state)
        rows = self._connection.execute(query.where(DEVICE_STATE.c.device_id.in_(device_ids)))
        return ((name, _bound_decoder.decode(state).lineages) for name, state in rows)

    def advance(self, states: Iterable[tuple[str, str]], *, drain_id: int) -> None:
        """Store the states after a drain."""
        whole = [(device_id, decode_state(state.encode())) for device_id, state in states]
        self._keep_columns(state for _, state in whole)
        rows = ((device_id, _kept(state), drain_id) for device_id, state in whole)
        incoming = copied(self._connection, DEVICE_STATE, rows)
        statement = insert(DEVICE_STATE).from_select(
            [column.name for column in incoming.columns], select(incoming)
        )
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=[DEVICE_STATE.c.device_id],
                set_={
                    "state": statement.excluded.state,
                    "drain_id": statement.excluded.drain_id,
                },
            )
        )

    def columns_of(self, source_table: str, schema_hash: str) -> list[SchemaColumn] | None:
        """The columns behind a hash of a table, None when nobody announced them."""
        place = (source_table, schema_hash)
        found = self._schemas.of_tables([place]).get(place)
        return None if found is None else list(found)

    def _columns(self, states: Iterable[KeptState]) -> dict[str, Columns]:
        lineages = (lineage for state in states for lineage in state.lineages.values())
        return self._schemas.of(
            {schema_hash for lineage in lineages for schema_hash in lineage.schemas}
        )

    def _keep_columns(self, states: Iterable[DeviceState]) -> None:
        lineages = (lineage for state in states for lineage in state.lineages.values())
        self._schemas.keep(
            {
                schema_hash: bound.columns
                for lineage in lineages
                for schema_hash, bound in lineage.schemas.items()
            }
        )


_kept_decoder = msgspec.json.Decoder(KeptState)
_bound_decoder = msgspec.json.Decoder(_BoundState)


def _kept(state: DeviceState) -> str:
    lineages = {
        table: KeptLineage(
            lineage.watermarks,
            lineage.floors,
            {schema_hash: bound.holds_from for schema_hash, bound in lineage.schemas.items()},
            lineage.marks,
            lineage.telemetry,
            lineage.failures,
            lineage.accepted,
            lineage.first_schema,
        )
        for table, lineage in state.lineages.items()
    }
    kept = KeptState(
        state.next_received_at,
        state.epochs,
        lineages,
        state.batch_id,
        state.batch_marks,
        state.spans,
    )
    return msgspec.json.encode(kept).decode()


def _whole(kept: KeptState, columns: Mapping[str, Columns]) -> DeviceState:
    lineages = {
        table: LineageState(
            lineage.watermarks,
            lineage.floors,
            {
                schema_hash: BoundSchema(holds_from, columns[schema_hash])
                for schema_hash, holds_from in lineage.schemas.items()
            },
            lineage.marks,
            lineage.telemetry,
            lineage.failures,
            lineage.accepted,
            lineage.first_schema,
        )
        for table, lineage in kept.lineages.items()
    }
    return DeviceState(
        kept.next_received_at,
        kept.epochs,
        lineages,
        kept.batch_id,
        kept.batch_marks,
        kept.spans,
    )
