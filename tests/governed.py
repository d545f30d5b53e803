"""Reviews for tests: what drains ask for, and the people who act on it."""

from collections.abc import Callable

from sqlalchemy import create_engine, text

from ilyama_protocol.fingerprint import schema_hash
from ilyama_protocol.governance.bindings import Actions
from ilyama_protocol.governance.classification import SchemaClass, SchemaDiff
from ilyama_protocol.governance.policies import Policy, PolicyChoice, PolicyScope
from ilyama_protocol.governance.reviews import ReviewAsked, ReviewState, ReviewVerb
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_resources.postgres.governance.review_queue import MOST_OPEN
from ilyama_resources.postgres.governance.reviews import Review, ReviewFilter
from ilyama_service.policies import Policies
from ilyama_service.reviewing import Act, Reviewing
from tests.unit.governance.schemas import columns

TABLE = "pumps"
SCHEMA = columns("id:INTEGER:pk1:nn", "mode:TEXT", "flow:REAL")
HASH = schema_hash(TABLE, SCHEMA)
OTHER = "b4" * 32
CREATING = Policy(allow_auto_create_datapoints=True)


def asked(device_id: str, schema: str = HASH, **others: object) -> ReviewAsked:
    """What a drain asks about a device; of another schema than the usual, only names are known."""
    known = schema == HASH
    given: dict[str, object] = {
        "device_id": device_id,
        "source_table": TABLE,
        "schema_hash": schema,
        "schema_class": SchemaClass.BREAKING,
        "received_at": 1_000,
        "firmware_version": "1.4",
        "columns": SCHEMA if known else None,
        "seen": ("id", "mode"),
        "diff": SchemaDiff(dropped=("old",)),
        "last_accepted": "0a" * 32,
    }
    return ReviewAsked(**given | others)  # type: ignore[arg-type]


def register(gateway: Gateway, *device_ids: str, project: str | None = None) -> None:
    """Register devices, in a project or in none."""
    devices = [RegisteredDevice(name, "acme", name, None, project) for name in device_ids]
    with gateway.transaction() as tx:
        tx.devices.register(devices, auto=False)
        tx.commit()


def queue(gateway: Gateway, *reviews: ReviewAsked, drain_id: int = 7, most: int = MOST_OPEN) -> int:
    """Queue as the close of a drain does; tell how many reviews are new."""
    with gateway.transaction() as tx:
        new = tx.review_queue.add(reviews, drain_id=drain_id, most=most)
        tx.commit()
    return new


def reviews(gateway: Gateway, state: ReviewState | None = None) -> list[Review]:
    """All reviews, the oldest first."""
    with gateway.transaction() as tx:
        return tx.reviews.page(ReviewFilter(state), limit=10_000)[::-1]


def paused(gateway: Gateway) -> list[str]:
    """The devices whose lineages are paused, once for each reason."""
    engine = create_engine(gateway.url)
    with engine.connect() as connection:
        found = connection.scalars(text("SELECT device_id FROM lineage_pause ORDER BY 1"))
        devices = list(found)
    engine.dispose()
    return devices


def act_on(review: Review, note: str | None = None) -> Act:
    """Ann acts on a review as she sees it."""
    return Act(review.review_id, review.action_version, "ann", note)


class Desk:
    """Where reviews are decided, each act in a transaction of its own."""

    def __init__(self, gateway: Gateway, policy: Policy, *, most: int) -> None:
        self._gateway = gateway
        self._policies = Policies(policy)
        self._reviewing = Reviewing(policy, most_open=most)

    def start(self, act: Act) -> Review:
        return self._act(ReviewVerb.START, act)

    def approve(self, act: Act, actions: Actions | None = None) -> Review:
        return self._act(ReviewVerb.APPROVE, act, actions)

    def reject(self, act: Act) -> Review:
        return self._act(ReviewVerb.REJECT, act)

    def abandon(self, act: Act) -> Review:
        return self._act(ReviewVerb.ABANDON, act)

    def reopen(self, act: Act) -> Review:
        return self._act(ReviewVerb.REOPEN, act)

    def decide(self, act: Act, actions: Actions) -> Review:
        return self._act(ReviewVerb.DECIDE, act, actions)

    def choose(self, scope: PolicyScope, choice: PolicyChoice, *, actor: str) -> Policy:
        return self.change(scope, lambda _: choice, actor=actor)

    def change(
        self, scope: PolicyScope, changed: Callable[[PolicyChoice], PolicyChoice], *, actor: str
    ) -> Policy:
        with self._gateway.transaction() as tx:
            policy = self._policies.change(tx, scope, changed, actor=actor)
            tx.commit()
        return policy

    def _act(self, verb: ReviewVerb, act: Act, actions: Actions | None = None) -> Review:
        with self._gateway.transaction() as tx:
            review = self._reviewing.act(tx, verb, act, actions)
            tx.commit()
        return review


def reviewing(gateway: Gateway, policy: Policy = CREATING, *, most: int = MOST_OPEN) -> Desk:
    """The desk where reviews are decided."""
    return Desk(gateway, policy, most=most)
