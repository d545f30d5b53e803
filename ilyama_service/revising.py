"""Reviews of schemas that are accepted already, for people who want something else of them.

What is accepted goes on while such a review is open, and for good when it is not approved.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from ilyama_protocol.governance.bindings import Actions, Binding
from ilyama_protocol.governance.classification import SchemaClass
from ilyama_protocol.governance.reviews import ReviewState
from ilyama_protocol.intake.state import LineageState, decode_state
from ilyama_protocol.names import known_firmware
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.governance.reviews import FIRST_VERSION, Review
from ilyama_service.reviewing import ReviewConflict, ReviewNotFound

_ON_REQUEST = 0
"""No drain has asked."""


class Wish(NamedTuple):
    """Who wants to look again at what becomes of a schema of a lineage.

    Without a hash it is the only one that the lineage has accepted.
    """

    device_id: str
    source_table: str
    schema_hash: str | None
    actor: str
    note: str | None = None


def revise(tx: Transaction, wish: Wish) -> Review:
    """Open a review of a schema that its lineage has accepted."""
    tx.reviews.alone()
    lineage = _lineage(tx, wish)
    schema_hash = _chosen(wish, lineage)
    if tx.reviews.is_open(wish.device_id, wish.source_table, schema_hash):
        raise ReviewConflict(f"a review of {schema_hash} is open already")
    review_id = tx.reviews.revise(_asked(tx, wish, schema_hash, lineage))
    tx.audit.record(
        actor=wish.actor,
        verb="revise",
        resource=f"review/{review_id}",
        new={"state": ReviewState.QUEUED, "action_version": FIRST_VERSION, "note": wish.note},
    )
    review = tx.reviews.find(review_id)
    if review is None:
        raise ReviewNotFound(f"there is no review {review_id}")
    return review


def _lineage(tx: Transaction, wish: Wish) -> LineageState:
    state = tx.device_states.of([wish.device_id]).get(wish.device_id)
    lineages = {} if state is None else decode_state(state.encode()).lineages
    if wish.source_table not in lineages:
        raise ReviewNotFound(f"{wish.device_id} has sent nothing of {wish.source_table}")
    return lineages[wish.source_table]


def _chosen(wish: Wish, lineage: LineageState) -> str:
    accepted = lineage.accepted_schemas()
    if wish.schema_hash is None and len(accepted) == 1:
        return next(iter(accepted))
    if wish.schema_hash is None:
        raise ReviewConflict(f"{len(accepted)} schemas of the lineage are accepted: name one")
    if wish.schema_hash not in accepted:
        raise ReviewNotFound(f"the lineage has accepted no schema {wish.schema_hash}")
    return wish.schema_hash


def _asked(tx: Transaction, wish: Wish, schema_hash: str, lineage: LineageState) -> Review:
    """The review as it is opened; it shows what is in force as its last accepted schema."""
    device = tx.devices.named([wish.device_id]).get(wish.device_id)
    bound, binding = lineage.schemas.get(schema_hash), lineage.binding_of(schema_hash)
    told = f"asked for by {wish.actor}"
    return Review(
        review_id=0,
        device_id=wish.device_id,
        source_table=wish.source_table,
        schema_hash=schema_hash,
        project_id=tx.devices.projects([wish.device_id]).get(wish.device_id),
        schema_class=SchemaClass.COMPATIBLE_MAPPED,
        state=ReviewState.QUEUED,
        action_version=FIRST_VERSION,
        columns=None if bound is None else bound.columns,
        seen_columns=tuple(sorted(_named(binding))),
        evidence={"diff": {}, "last_accepted": schema_hash},
        firmware_version=known_firmware(None if device is None else device.firmware_version),
        first_received_at=binding.holds_from,
        opened_by=_ON_REQUEST,
        opened_at=datetime.now(UTC),
        started_at=None,
        decided_at=None,
        decided_by=None,
        note=told if wish.note is None else f"{told}: {wish.note}",
        actions=None,
        shared_from=None,
        revises=True,
    )


def _named(binding: Binding) -> Actions:
    return binding.actions or {}
