"""The rules about rows, one table of cases per rule."""

from typing import Any

import pytest

from ilyama_protocol.topics import MessageKind
from tests.unit.protocol.payloads import (
    ABSENT,
    BATCH_ID,
    UUID4,
    change,
    code_of,
    document,
    path_of,
    sample,
    verdict_on,
)

ROWS, TELEMETRY = MessageKind.ROWS, MessageKind.TELEMETRY


@pytest.mark.parametrize(
    ("row", "path"),
    [
        (None, ""),
        ([], ""),
        (change(op="upsert"), ".op"),
        (change(op=ABSENT), ".op"),
        (change(op=["insert"]), ".op"),
        (change(pk=ABSENT), ".pk"),
        (change(pk=None), ".pk"),
        (change(pk=1), ".pk"),
        (change(pk={}), ".pk"),
        (change(pk={"id": [1]}), ".pk.id"),
        (change(pk={"a b": {}}), '.pk["a b"]'),
        (change(pk={"id": 2**63}), ".pk.id"),
        (change(row=ABSENT), ".row"),
        (change(row=None), ".row"),
        (change(row=[]), ".row"),
        (change(op="delete", row={}), ".row"),
        (change(op="delete", row=False), ".row"),
        (change(row={"v": -(2**63) - 1}), ".row.v"),
        (change(row={"v": [0, {"w": 2**64}]}), ".row.v[1].w"),
        (change(row={"v": 10**300}), ".row.v"),
        (change(commit_seq=ABSENT), ".commit_seq"),
        (change(commit_seq=-1), ".commit_seq"),
        (change(commit_seq=2**63), ".commit_seq"),
        (change(commit_seq=True), ".commit_seq"),
        (change(commit_seq=1.0), ".commit_seq"),
    ],
)
def test_a_row_is_a_well_formed_change(row: Any, path: str) -> None:
    verdict = verdict_on(ROWS, document(ROWS, rows=[change(101), row, change(103)]))

    assert code_of(verdict) == "invalid_row"
    assert path_of(verdict) == f"$.rows[1]{path}"


@pytest.mark.parametrize(
    "row",
    [
        change(op="insert"),
        change(op="delete", row=ABSENT),
        change(row={}),
        change(pk={"a": None, "b": True, "c": 1.5, "d": "\0", "": ""}),
        change(row={"v": [[], {}, {"w": [1, None]}], "min": -(2**63), "max": 2**63 - 1}),
        change(row={"pk": {"row": 1}, "row": None, "rows": []}),
        change(unknown=2**70),
    ],
)
def test_a_row_may_be_of_many_shapes(row: Any) -> None:
    verdict = verdict_on(ROWS, document(ROWS, rows=[row], last_commit_seq=101))

    assert code_of(verdict) is None


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"first_commit_seq": 100}, "$.first_commit_seq"),
        ({"first_commit_seq": 102}, "$.first_commit_seq"),
        ({"last_commit_seq": 102}, "$.last_commit_seq"),
        ({"last_commit_seq": 104}, "$.last_commit_seq"),
        ({"first_commit_seq": 103, "last_commit_seq": 101}, "$.first_commit_seq"),
    ],
)
def test_the_envelope_names_the_range_of_commit_seq(members: dict[str, Any], path: str) -> None:
    verdict = verdict_on(ROWS, document(ROWS, **members))

    assert (code_of(verdict), path_of(verdict)) == ("commit_seq_range_mismatch", path)


@pytest.mark.parametrize("row_count", [0, 1, 3])
def test_row_count_is_the_number_of_rows(row_count: int) -> None:
    verdict = verdict_on(TELEMETRY, document(TELEMETRY, row_count=row_count))

    assert (code_of(verdict), path_of(verdict)) == ("row_count_mismatch", "$.row_count")


@pytest.mark.parametrize(
    ("row", "path"),
    [
        (None, ""),
        ([], ""),
        (sample(ts=ABSENT), ".ts"),
        (sample(ts=None), ".ts"),
        (sample(ts=1), ".ts"),
        (sample(ts="2026-04-28"), ".ts"),
        (sample(fields=ABSENT), ".fields"),
        (sample(fields=None), ".fields"),
        (sample(fields={}), ".fields"),
        (sample(fields=[1]), ".fields"),
        (sample(fields={"v": []}), ".fields.v"),
        (sample(fields={"v": {"w": 1}}), ".fields.v"),
        (sample(fields={"v": 2**63}), ".fields.v"),
    ],
)
def test_a_sample_has_a_time_and_fields(row: Any, path: str) -> None:
    rows = [sample(row_id="odd, but looked at later"), row]
    verdict = verdict_on(TELEMETRY, document(TELEMETRY, rows=rows))

    assert (code_of(verdict), path_of(verdict)) == ("invalid_row", f"$.rows[1]{path}")


@pytest.mark.parametrize("row_id", ["", "row-1", 1, False, [], BATCH_ID.replace("-", "")])
def test_a_row_id_is_a_uuid(row_id: Any) -> None:
    rows = [sample(), sample("2026-04-28T09:00:11Z", row_id=row_id)]
    verdict = verdict_on(TELEMETRY, document(TELEMETRY, rows=rows))

    assert (code_of(verdict), path_of(verdict)) == ("invalid_row_id", "$.rows[1].row_id")


@pytest.mark.parametrize("row_id", [ABSENT, None, UUID4, UUID4.upper(), BATCH_ID])
def test_a_row_id_may_be_left_out(row_id: Any) -> None:
    rows = [sample(row_id=row_id), sample("2026-04-28T09:00:10Z")]

    assert code_of(verdict_on(TELEMETRY, document(TELEMETRY, rows=rows))) is None


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"cursor_start_ts": "2026-04-28T09:00:00.999999999Z"}, "$.cursor_start_ts"),
        ({"cursor_start_ts": "2026-04-28T09:00:01.000000001Z"}, "$.cursor_start_ts"),
        ({"cursor_end_ts": "2026-04-28T09:00:09Z"}, "$.cursor_end_ts"),
        ({"cursor_end_ts": "2026-04-28T09:00:10+00:01"}, "$.cursor_end_ts"),
    ],
)
def test_the_cursors_are_the_range_of_ts(members: dict[str, Any], path: str) -> None:
    verdict = verdict_on(TELEMETRY, document(TELEMETRY, **members))

    assert (code_of(verdict), path_of(verdict)) == ("cursor_timestamp_mismatch", path)


@pytest.mark.parametrize(
    "start", ["2026-04-28T11:00:01+02:00", "2026-04-28t09:00:01.000z", "2026-04-28T09:00:01-00:00"]
)
def test_cursors_are_compared_as_instants(start: str) -> None:
    assert code_of(verdict_on(TELEMETRY, document(TELEMETRY, cursor_start_ts=start))) is None
