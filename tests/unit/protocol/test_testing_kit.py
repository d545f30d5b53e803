"""The conformance kit, as a firmware project uses it: in a pytest run of its own."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from ilyama_protocol.testing.vectors import SHAPES, ValidationVector, read
from ilyama_protocol.testing.verdicts import DeviceSession, judged
from ilyama_protocol.topics import MessageKind
from ilyama_resources.settings import REPOSITORY
from tests.unit.protocol.payloads import change, document, encoded

EXAMPLE = REPOSITORY / "docs" / "examples" / "firmware"
PLUGIN = "ilyama_protocol.testing.plugin"
ROWS = "sync/rows/batch"
BROKEN_FIRMWARE = """
def test_a_batch_breaks_no_rule(ilyama_check):
    ilyama_check("sync/rows/batch", {"format_version": "1"}).assert_accepted()


def test_a_retry_adds_nothing(ilyama_device):
    ilyama_device.publish("sync/ingest/ack", b"[]").assert_duplicate()


def test_every_vector_is_asked_for(ilyama_validation_vector, ilyama_check):
    vector = ilyama_validation_vector
    verdict = ilyama_check(vector.topic, vector.payload, registered=vector.registered)
    assert verdict.code == vector.code


def test_ids_of_datapoints(ilyama_datapoint_id_vector, ilyama_encoding):
    vector = ilyama_datapoint_id_vector
    assert ilyama_encoding.datapoint_id(vector.ts_us, vector.series) == vector.datapoint_id
"""


def run_pytest(project: Path) -> str:
    """A run that knows the plugin and nothing of this repository's own configuration."""
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(project), str(project)],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_example_of_a_firmware_project_passes(tmp_path: Path) -> None:
    project = tmp_path / "firmware"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))

    told = run_pytest(project)

    tests = (EXAMPLE / "test_station.py").read_text(encoding="utf-8").count("\ndef test_")
    vectors = sum(len(read(name)) - 1 for name in ("canonical_and_hash", "affinity"))
    vectors += len(read("schema_fingerprint")) - 1
    assert re.search(rf"^{tests + vectors} passed", told, re.MULTILINE), told


def test_a_failure_says_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "test_firmware.py").write_text(BROKEN_FIRMWARE, encoding="utf-8")

    told = run_pytest(tmp_path)

    assert (
        "the message on sync/rows/batch is rejected: invalid_format_version at $.format_version\n"
        '    format_version is "1"; it must be the integer 1\n'
        "    action: fix"
    ) in told
    assert "expected: duplicate, rows_conflict=0\nfound: rejected, invalid_json at $" in told
    assert f"2 failed, {len(read('validation')) + len(read('datapoint_id'))} passed" in told


@pytest.mark.parametrize("name", SHAPES)
def test_every_file_of_vectors_can_be_read_and_its_ids_differ(name: str) -> None:
    vectors = read(name)

    assert vectors
    assert len({vector.id for vector in vectors}) == len(vectors)


def test_the_vectors_of_validation_say_yes_and_no() -> None:
    vectors = [vector for vector in read("validation") if isinstance(vector, ValidationVector)]

    assert {vector.code is None for vector in vectors} == {True, False}


def test_a_verdict_names_code_place_sentence_and_action() -> None:
    verdict = judged(ROWS, document(MessageKind.ROWS, rows=[change(101), change(103, pk={})]))

    assert not verdict.accepted
    assert (verdict.code, verdict.json_path, verdict.action) == (
        "invalid_row",
        "$.rows[1].pk",
        "fix",
    )
    assert verdict.sentence == "rows[1].pk is empty; send the primary key as an object of scalars"


@pytest.mark.parametrize(
    ("code", "json_path", "told"),
    [
        ("invalid_json", None, "should be rejected with invalid_json and is: invalid_row"),
        ("invalid_row", "$.rows[0].pk", r"should be rejected at \$.rows\[0\].pk and is: "),
    ],
)
def test_another_rejection_than_expected_fails(code: str, json_path: str, told: str) -> None:
    verdict = judged(ROWS, document(MessageKind.ROWS, rows=[change(101), change(103, pk={})]))

    verdict.assert_rejected("invalid_row", "$.rows[1].pk")
    with pytest.raises(pytest.fail.Exception, match=told):
        verdict.assert_rejected(code, json_path)


def test_an_acceptance_where_a_rejection_was_expected_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="with empty_batch and is accepted"):
        judged(ROWS, encoded(document(MessageKind.ROWS))).assert_rejected("empty_batch")


def test_a_session_remembers_and_can_be_insisted_on() -> None:
    device = DeviceSession("acme/dev-7")
    batch = document(MessageKind.ROWS)

    device.publish(ROWS, batch).assert_accepted(rows_new=2)
    device.publish("acme/dev-7/sync/rows/batch", batch).assert_duplicate()
    clone = {**batch, "rows": [change(101, row={"id": 1}), change(103, "delete")]}
    conflict = device.publish(ROWS, clone)

    assert (conflict.outcome, conflict.rows_conflict) == ("duplicate", 1)
    with pytest.raises(pytest.fail.Exception, match=r"found: duplicate, .*1 in conflict"):
        conflict.assert_duplicate()
    with pytest.raises(pytest.fail.Exception, match="expected: rejected, empty_batch"):
        conflict.assert_rejected("empty_batch")
    assert [answer.outcome for answer in device.answers] == ["accepted", "duplicate", "duplicate"]


def test_receipts_and_requests_are_taken_too() -> None:
    device = DeviceSession("acme/dev-7")

    device.publish("sync/ingest/ack", document(MessageKind.ACK)).assert_accepted()
    device.publish("sync/ingest/ack", document(MessageKind.ACK)).assert_outcome("handled")
    device.publish("devices/dev-7/telemetry", b"{").assert_accepted()
    refused = device.publish("sync/ingest/ack", b"{}")
    with pytest.raises(pytest.fail.Exception, match="expected: accepted\nfound: rejected"):
        refused.assert_accepted()


def test_a_rejection_in_a_session_can_be_insisted_on_with_its_place() -> None:
    rows = [change(101), change(103, pk={})]
    answer = DeviceSession("acme/dev-7").publish(ROWS, document(MessageKind.ROWS, rows=rows))

    answer.assert_rejected("invalid_row", "$.rows[1].pk")
    with pytest.raises(pytest.fail.Exception, match=r"rejected, invalid_row at \$\.rows\[0\]\n"):
        answer.assert_rejected("invalid_row", "$.rows[0]")


def test_an_array_is_a_payload_and_is_told_to_be_no_object() -> None:
    judged(ROWS, [1, 2]).assert_rejected("invalid_json")
    DeviceSession("acme/dev-7").publish(ROWS, []).assert_rejected("invalid_json")


@pytest.mark.parametrize(
    ("misuse", "told"),
    [
        (lambda _: judged("devices/dev-7/telemetry", b"{}"), "is kept as it is and judged by"),
        (lambda _: judged(ROWS, {"at": object()}), "the payload cannot be sent as JSON"),
        (
            lambda device: device.publish(ROWS, b"{}").assert_outcome("accepted", rows_nwe=1),
            "'rows_nwe' is no name of a count; there are rows_below_floor, ",
        ),
        (
            lambda device: device.publish(ROWS, b"{}").assert_outcome("acepted"),
            "'acepted' is no name of an outcome; there are accepted, ",
        ),
    ],
    ids=["devices", "no JSON", "mistyped count", "mistyped outcome"],
)
def test_what_a_test_has_wrong_is_a_failure_with_a_sentence(
    misuse: Callable[[DeviceSession], object], told: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=told):
        misuse(DeviceSession("acme/dev-7"))


def test_the_package_announces_the_plugin_and_ships_the_vectors() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    announced = project["project"]["entry-points"]["pytest11"]
    shipped = project["tool"]["setuptools"]["package-data"]

    # Under any other name, `-p` would load the plugin a second time.
    assert announced == {PLUGIN: PLUGIN}
    assert shipped["ilyama_protocol.testing.vectors"] == ["*.jsonl"]
