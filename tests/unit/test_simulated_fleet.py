"""The messages of a simulated fleet are the same for the same plan, and mean what they say."""

from collections import Counter
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from ilyama_protocol.canonical import pk_hash
from ilyama_protocol.rejections import RejectionCode
from ilyama_resources.settings import Settings
from ilyama_service.simulator.faults import CODES
from ilyama_service.simulator.fleet import Fleet
from ilyama_service.simulator.messages import Behaviour, Sent, SimulatedMessage
from ilyama_service.simulator.plan import FleetPlan, clock_start_ms
from ilyama_service.simulator.record import RunRecord, next_batch_seqs
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event

DRAIN = 50


def plan(seed: str = "7", **options: float) -> FleetPlan:
    given = {"devices": 3, "misbehave": 0.6, "rows_per_batch": 4, "probe_every": 40} | options
    return msgspec.convert(
        {"seed": seed, "clock_start_ms": clock_start_ms(seeded=True)} | given, FleetPlan
    )


def messages_of(chosen: FleetPlan, count: int) -> list[SimulatedMessage]:
    return list(islice(Fleet(chosen).messages(), count))


@pytest.fixture(scope="module")
def published() -> list[SimulatedMessage]:
    return messages_of(plan(), 1000)


@pytest.fixture(scope="module")
def platform(published: list[SimulatedMessage]) -> MemoryPlatform:
    taken = MemoryPlatform()
    events = [Event(m.sent.topic, m.payload, 10**15 + n) for n, m in enumerate(published)]
    for start in range(0, len(events), DRAIN):
        taken.drain(events[start : start + DRAIN])
    return taken


def row_keys(sent: Sent) -> set[tuple[object, ...]]:
    lineage = (sent.topic.removesuffix("/sync/rows/batch"), sent.source_table, sent.journal_epoch)
    return {(*lineage, pk_hash(msgspec.json.decode(r.pk)), r.commit_seq) for r in sent.rows}


def test_the_same_plan_gives_the_same_messages() -> None:
    assert messages_of(plan(), 200) == messages_of(plan(), 200)


@pytest.mark.parametrize(
    "other",
    [plan("8"), plan(rows_per_batch=5), plan(devices=4), plan(misbehave=0.5), plan().renewed()],
    ids=["another seed", "more rows", "more devices", "better manners", "another run"],
)
def test_plans_that_differ_share_no_row_key(other: FleetPlan) -> None:
    ours = set().union(*(row_keys(m.sent) for m in messages_of(plan(), 100)))
    theirs = set().union(*(row_keys(m.sent) for m in messages_of(other, 100)))
    assert ours
    assert not ours & theirs


def test_every_behaviour_occurs(published: list[SimulatedMessage]) -> None:
    assert {m.sent.behaviour for m in published} == set(Behaviour) - {Behaviour.TELEMETRY}


def test_every_code_of_the_faults_occurs(published: list[SimulatedMessage]) -> None:
    assert {m.sent.code for m in published} - {None} == set(CODES)


def test_a_redelivery_is_the_same_bytes(published: list[SimulatedMessage]) -> None:
    seen: set[str] = set()
    for message in filter(lambda message: message.payload, published):
        again = message.sent.behaviour is Behaviour.REDELIVERY
        assert (message.sent.sha256 in seen) is again
        seen.add(message.sent.sha256)


def test_a_fleet_with_good_manners_sends_nothing_but_fresh_batches() -> None:
    behaviours = {m.sent.behaviour for m in messages_of(plan(misbehave=0, probe_every=0), 200)}
    assert behaviours == {Behaviour.FRESH}


def test_short_payloads_are_padded() -> None:
    padded = messages_of(plan(misbehave=0, payload_bytes=4096), 50)
    assert {len(message.payload) for message in padded} == {4096}


def test_the_platform_stores_exactly_the_expected_rows(
    published: list[SimulatedMessage], platform: MemoryPlatform
) -> None:
    expected = set().union(*(row_keys(m.sent) for m in published))
    names = ("device_id", "source_table", "journal_epoch", "source_pk_hash", "commit_seq")
    stored = Counter(tuple(row[n] for n in names) for row in platform.tables["row_changes"])
    assert stored == Counter(expected)


def test_the_platform_rejects_exactly_what_is_meant_to_be_rejected(
    published: list[SimulatedMessage], platform: MemoryPlatform
) -> None:
    meant = Counter((m.sent.sha256, m.sent.code) for m in published if m.sent.code)
    lines = [line for line in platform.tables["batch_ledger"] if line["outcome"] == "rejected"]
    codes = Counter((line["payload_sha256"], RejectionCode(line["code"])) for line in lines)
    assert codes == meant


def test_clones_and_nothing_else_clash(
    published: list[SimulatedMessage], platform: MemoryPlatform
) -> None:
    clones = {m.sent.sha256 for m in published if m.sent.behaviour is Behaviour.CLONE}
    lines = platform.tables["batch_ledger"]
    assert {line["payload_sha256"] for line in lines if line["rows_conflict"]} == clones


def test_current_values_are_few_and_typed(platform: MemoryPlatform) -> None:
    values = platform.current_values()
    pressure = [v for v in values if v["key"] == "readings.value" and v["instance"] == "1"]
    assert [1 < v["value_double"] < 4 for v in pressure] == [True] * 3
    assert len(values) < 3 * 150


def test_the_platform_stores_every_sample_once() -> None:
    sampled = messages_of(plan(telemetry=0.5), 300)
    taken = MemoryPlatform()
    taken.drain([Event(m.sent.topic, m.payload, 10**15 + n) for n, m in enumerate(sampled)])

    expected = {(m.sent.device, m.sent.batch_id): m.sent.samples for m in sampled if m.sent.samples}
    assert len(expected) > 30
    assert len(taken.tables["telemetry_samples"]) == sum(expected.values())
    lines = [line for line in taken.tables["batch_ledger"] if line["kind"] == "telemetry"]
    assert {line["outcome"] for line in lines} == {"accepted", "duplicate"}


def test_devices_count_on_from_their_last_run(tmp_path: Path) -> None:
    settings, taken = Settings(home=tmp_path), MemoryPlatform()
    chosen, events = plan(telemetry=0.5), []
    for seed in ("1", "2", "3"):
        numbers = next_batch_seqs(settings, chosen.slug)
        chosen = msgspec.structs.replace(chosen, seed=seed, batch_seqs=numbers)
        sampled = messages_of(chosen, 60)
        record = RunRecord.begin(settings, chosen, seeded=False, endless=False)
        record.sent([message.sent for message in sampled])
        record.close()
        events += sampled
    taken.drain([Event(m.sent.topic, m.payload, 10**15 + n) for n, m in enumerate(events)])

    lines = [line for line in taken.tables["batch_ledger"] if line["kind"] == "telemetry"]
    assert {line["outcome"] for line in lines} == {"accepted", "duplicate"}
    assert not [gap for gap in taken.gaps() if gap["kind"] == "telemetry"]


def test_devices_go_on_from_whatever_run_came_furthest(tmp_path: Path) -> None:
    settings, sampled = Settings(home=tmp_path), plan(telemetry=0.5)
    silent = msgspec.structs.replace(plan(), batch_seqs={1: 2})
    for chosen in (sampled, silent, msgspec.structs.replace(sampled, slug="other", seed="8")):
        record = RunRecord.begin(settings, chosen, seeded=False, endless=False)
        record.sent([message.sent for message in messages_of(chosen, 60)])
        record.close()
    batches = {(m.sent.device, m.sent.batch_id) for m in messages_of(sampled, 60) if m.sent.samples}
    assert next_batch_seqs(settings, "acme") == Counter(device for device, _ in batches)
    assert next_batch_seqs(settings, "elsewhere") == {}
