"""Schemas that change in the field; nothing is lost, whatever the policy makes of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_service.simulator.scenarios.expected import accepted, added, duplicate, handled, staged
from ilyama_service.simulator.scenarios.script import COLUMNS, OBSERVE, Script

_ADDED = SchemaColumn("pressure", Affinity.REAL, pk_ordinal=0, not_null=False)


def schema_additive(device: Script) -> None:
    """A firmware update adds a column that may be null."""
    device.sends(device.batch(device.changes(2)), accepted(2))
    wider = device.changes(2, pressure=2.5)
    device.sends(device.batch(wider, columns=(*COLUMNS, _ADDED)), added(2))


def schema_breaking(device: Script) -> None:
    """Affinity changed, column dropped, other primary key, new column that must not be null."""
    device.sends(device.batch(device.changes(2)), accepted(2))
    for columns in _breaking():
        device.sends(device.batch(device.changes(2), columns=columns), staged(2))


def schema_flip_flop(device: Script) -> None:
    """Two firmwares share a device's journal: the schema changes with every batch."""
    device.sends(device.batch(device.changes(1)), accepted(1))
    for turn in range(6):
        is_own = turn % 2
        columns = COLUMNS if is_own else (*COLUMNS, _ADDED)
        waits = added(1, StagingReason.LINEAGE_PAUSED) if is_own else added(1)
        device.sends(device.batch(device.changes(1), columns=columns), waits)


def schema_never_the_same(device: Script) -> None:
    """Firmware hashes something random: every batch has a schema of its own."""
    device.sends(device.batch(device.changes(1)), accepted(1))
    for turn in range(8):
        random = replace(_ADDED, name=f"build_{turn}")
        # Compared with one that joined before, the others drop a column.
        waits = staged(1) if turn else added(1)
        device.sends(device.batch(device.changes(1), columns=(*COLUMNS, random)), waits)


def schema_of_five_hundred_columns(device: Script) -> None:
    """A table of three columns becomes one of five hundred."""
    device.sends(device.batch(device.changes(1)), accepted(1))
    many = [
        SchemaColumn(f"c{number}", Affinity.REAL, pk_ordinal=0, not_null=False)
        for number in range(497)
    ]
    device.sends(device.batch(device.changes(1), columns=(*COLUMNS, *many)), added(1))


def schema_never_announced(device: Script) -> None:
    """Only the hash of the columns is ever sent."""
    for _ in range(2):
        device.sends(device.batch(device.changes(2), announced=False), accepted(2))


def schema_announced_late(device: Script) -> None:
    """The columns behind a hash come with its second batch."""
    device.sends(device.batch(device.changes(2), announced=False), accepted(2))
    device.sends(device.batch(device.changes(2)), accepted(2))


def schema_in_another_order(device: Script) -> None:
    """The columns are announced in another order: the same schema."""
    device.sends(device.batch(device.changes(1)), accepted(1))
    device.sends(device.batch(device.changes(1), columns=COLUMNS[::-1]), accepted(1))


def schema_changes_unannounced(device: Script) -> None:
    """The hash changes and the columns behind it never come."""
    device.sends(device.batch(device.changes(2)), accepted(2))
    wider = device.batch(device.changes(2, pressure=2.5), columns=(*COLUMNS, _ADDED))
    del wider["schema_columns"]
    device.sends(wider, staged(2))


def schema_observed_first(device: Script) -> None:
    """A schema is observed before its first batch, which announces nothing."""
    batch = device.batch(device.changes(2))
    names = ("format_version", "source_table", "schema_hash", "schema_columns")
    observed = {name: batch[name] for name in names} | {"observed_at": "2026-04-28T09:00:00Z"}
    device.sends(observed, handled(), on=OBSERVE)
    del batch["schema_columns"]
    device.sends(batch, accepted(2))


def schema_without_a_key(device: Script) -> None:
    """A table announces no primary key, and its changes have one all the same."""
    keyless = [replace(column, pk_ordinal=0) for column in COLUMNS]
    for _ in range(2):
        device.sends(device.batch(device.changes(2), columns=keyless), accepted(2))


def schema_of_another_key(device: Script) -> None:
    """Changes are keyed by a column that is not the announced key."""
    changes = [change | {"pk": {"serial": change["commit_seq"]}} for change in device.changes(2)]
    device.sends(device.batch(changes), accepted(2))


def redelivery_under_review(device: Script) -> None:
    """Rows that may be staged come again, whole and in part: duplicates all the same."""
    device.sends(device.batch(device.changes(1)), accepted(1))
    changes = device.changes(3, pressure=2.5)
    wider = (*COLUMNS, _ADDED)
    device.sends(device.batch(changes, columns=wider), added(3))
    device.sends(device.batch(changes, columns=wider), duplicate(3))
    device.sends(device.batch(changes[:2]), duplicate(2))


def _breaking() -> Iterator[Sequence[SchemaColumn]]:
    key, state, rpm = COLUMNS
    yield key, state, replace(rpm, decl_type_affinity=Affinity.TEXT)
    yield key, state
    yield replace(key, pk_ordinal=0), replace(state, pk_ordinal=1), rpm
    yield key, state, rpm, replace(_ADDED, not_null=True)


SCHEMAS = (
    schema_additive,
    schema_breaking,
    schema_flip_flop,
    schema_never_the_same,
    schema_of_five_hundred_columns,
    schema_never_announced,
    schema_announced_late,
    schema_in_another_order,
    schema_changes_unannounced,
    schema_observed_first,
    schema_without_a_key,
    schema_of_another_key,
    redelivery_under_review,
)
