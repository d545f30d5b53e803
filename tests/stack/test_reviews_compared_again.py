"""Open reviews show how their schemas compare now, and end when nothing is left to ask."""

import pytest

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.governance.bindings import MIRRORED, Binding, ColumnAction, Verb
from ilyama_protocol.governance.classification import SchemaClass, SchemaDiff
from ilyama_protocol.governance.reviews import ReviewAsked
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.intake.state import BoundSchema, DeviceState, LineageState, encode_state
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.governance.accepted_meanwhile import PLATFORM, settle_accepted
from ilyama_resources.postgres.governance.bindings import PolicyAcceptance
from ilyama_resources.postgres.governance.reviews import Review
from ilyama_resources.postgres.staged_backlog import StagedSum
from ilyama_service.reviewing import ReviewConflict
from tests.governed import TABLE, act_on, asked, paused, queue, register, reviewing, reviews
from tests.platform import Platform
from tests.unit.governance.schemas import columns

DEVICE = "a-1"
FIRST = columns("id:INTEGER:pk1:nn", "v:TEXT")
NUMBERS = (*FIRST, *columns("x:INTEGER"))
TEXTS = (*FIRST, *columns("x:TEXT"))
WIDER = (*NUMBERS, *columns("y:TEXT"))
IGNORE = ColumnAction(Verb.IGNORE)
PROJECTS = pytest.mark.parametrize("project", [None, "a"], ids=["no project", "a project"])
Schema = tuple[SchemaColumn, ...]


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    return platform_without_spark.gateway


def hash_of(schema: Schema) -> str:
    return schema_hash(TABLE, schema)


def question(schema: Schema, at: int = 1_000) -> ReviewAsked:
    """What a drain asks of a schema that adds a column to the first."""
    diff = SchemaDiff(added=("x",), unbound=("x",))
    return asked(
        DEVICE,
        hash_of(schema),
        schema_class=SchemaClass.COMPATIBLE_ADDITIVE,
        columns=schema,
        received_at=at,
        diff=diff,
        last_accepted=hash_of(FIRST),
    )


def under_review(gateway: Gateway, *schemas: Schema, project: str | None = None) -> None:
    """A device has accepted the first schema; of the others it has announced, each is asked."""
    register(gateway, DEVICE, project=project)
    known = {hash_of(s): BoundSchema(n, s) for n, s in enumerate((FIRST, *schemas))}
    first = hash_of(FIRST)
    lineage = LineageState(schemas=known, accepted={first: Binding(0)}, first_schema=first)
    state = encode_state(DeviceState(lineages={TABLE: lineage})).decode()
    with gateway.transaction() as tx:
        tx.device_states.advance([(DEVICE, state)], drain_id=1)
        tx.commit()
    queue(gateway, *(question(schema, at) for at, schema in enumerate(schemas, 1)))


def review_of(gateway: Gateway, schema: Schema) -> Review:
    """The newest review of a schema."""
    return [r for r in reviews(gateway) if r.schema_hash == hash_of(schema)][-1]


def stage(gateway: Gateway, schema: Schema, reason: StagingReason) -> StagedSum:
    found = StagedSum(DEVICE, TABLE, reason.value, hash_of(schema), 1, rows=5, bytes=100)
    with gateway.transaction() as tx:
        tx.backlog.add([found])
        tx.commit()
    return found


def free(gateway: Gateway) -> list[StagedSum]:
    with gateway.transaction() as tx:
        return tx.backlog.releasable(at_most_bytes=10_000)


@PROJECTS
def test_a_schema_that_breaks_what_was_approved_meanwhile_is_shown_as_that(
    gateway: Gateway, project: str | None
) -> None:
    under_review(gateway, NUMBERS, TEXTS, project=project)
    seen = review_of(gateway, TEXTS)
    desk = reviewing(gateway)

    desk.approve(act_on(review_of(gateway, NUMBERS)))

    now = review_of(gateway, TEXTS)
    assert (now.state, now.schema_class, now.action_version) == ("queued", "breaking", 2)
    assert now.evidence["diff"]["affinity_changed"] == ["x"]
    assert now.evidence["last_accepted"] == hash_of(NUMBERS)
    with pytest.raises(ReviewConflict, match="version 2"):
        desk.approve(act_on(seen))


def test_what_an_approval_does_not_change_keeps_its_version(gateway: Gateway) -> None:
    under_review(gateway, NUMBERS, TEXTS)
    desk = reviewing(gateway)
    desk.approve(act_on(review_of(gateway, NUMBERS)))
    before = review_of(gateway, TEXTS)
    queue(gateway, question((*FIRST, *columns("w:TEXT"))))

    desk.approve(act_on(reviews(gateway)[-1]))

    assert before.action_version == 2
    assert review_of(gateway, TEXTS) == before


@PROJECTS
def test_a_schema_whose_columns_another_approval_binds_is_approved_with_it(
    gateway: Gateway, project: str | None
) -> None:
    under_review(gateway, NUMBERS, WIDER, project=project)
    waits = stage(gateway, NUMBERS, StagingReason.SCHEMA_REVIEW)
    names = ["id", "v", "x", "y"]

    reviewing(gateway).approve(
        act_on(review_of(gateway, WIDER)), dict.fromkeys(names, MIRRORED) | {"x": IGNORE}
    )

    settled = review_of(gateway, NUMBERS)
    assert (settled.state, settled.decided_by) == ("approved", "ann")
    assert settled.actions == {"id": MIRRORED, "v": MIRRORED, "x": IGNORE}
    assert paused(gateway) == []
    assert free(gateway) == [waits]
    with gateway.transaction() as tx:
        lines = {line.resource: line for line in tx.audit.page(limit=5)}
    told = lines[f"review/{settled.review_id}"]
    assert (told.verb, told.new["state"]) == ("settle", "approved")
    assert told.new["action_version"] == settled.action_version


def test_what_a_person_rejected_no_other_approval_settles(gateway: Gateway) -> None:
    under_review(gateway, NUMBERS, WIDER)
    desk = reviewing(gateway)
    desk.reject(act_on(review_of(gateway, NUMBERS)))
    desk.reopen(act_on(review_of(gateway, NUMBERS)))

    desk.approve(act_on(review_of(gateway, WIDER)))

    assert review_of(gateway, NUMBERS).state == "queued"
    assert paused(gateway) == [DEVICE]


def test_a_review_that_is_opened_again_shows_what_was_approved_meanwhile(gateway: Gateway) -> None:
    under_review(gateway, NUMBERS, TEXTS)
    desk = reviewing(gateway)
    desk.reject(act_on(review_of(gateway, TEXTS)))
    desk.approve(act_on(review_of(gateway, NUMBERS)))

    again = desk.reopen(act_on(review_of(gateway, TEXTS)))

    assert (again.schema_class, again.evidence["last_accepted"]) == ("breaking", hash_of(NUMBERS))


def test_a_schema_that_is_accepted_while_it_is_under_review_is_asked_about_no_more(
    gateway: Gateway,
) -> None:
    under_review(gateway, NUMBERS)
    accepted = PolicyAcceptance(None, TABLE, hash_of(NUMBERS), Binding(5), DEVICE)

    with gateway.transaction() as tx:
        assert settle_accepted(tx, [accepted]) == [(DEVICE, TABLE)]
        tx.commit()

    settled = review_of(gateway, NUMBERS)
    assert (settled.state, settled.decided_by) == ("approved", PLATFORM)
    with pytest.raises(ReviewConflict):
        reviewing(gateway).reject(act_on(settled))


@pytest.mark.parametrize(
    "reason", [StagingReason.LINEAGE_PAUSED, StagingReason.MATERIALIZATION_FAILED]
)
def test_rows_of_a_rejected_schema_stay_staged_whatever_they_wait_for(
    gateway: Gateway, reason: StagingReason
) -> None:
    under_review(gateway, NUMBERS, TEXTS)
    kept, shown = stage(gateway, NUMBERS, reason), stage(gateway, TEXTS, reason)
    desk = reviewing(gateway)
    desk.reject(act_on(review_of(gateway, NUMBERS)))
    desk.approve(act_on(review_of(gateway, TEXTS)))
    with gateway.transaction() as tx:
        tx.backlog.retry(StagingReason.MATERIALIZATION_FAILED)
        tx.commit()

    assert paused(gateway) == []
    assert free(gateway) == [shown]
    assert kept not in free(gateway)
