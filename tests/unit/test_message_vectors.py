"""The published messages say what the validator and the oracle say, of every kind and code."""

import pytest

from docs.generate_vectors import INLINE, REPEATING, vectors
from ilyama_protocol.rejections import RejectionCode
from ilyama_protocol.testing.vectors import LargeVector, ValidationVector, file_of, read
from ilyama_protocol.testing.verdicts import judged
from ilyama_protocol.topics import SYNC_PATHS, MessageKind, parse_topic
from ilyama_protocol.validation.rules import RULES
from tests.oracle.validation import judge

MESSAGES = [
    vector
    for name in (INLINE, REPEATING)
    for vector in read(name)
    if isinstance(vector, ValidationVector | LargeVector)
]


@pytest.mark.parametrize("name", [INLINE, REPEATING])
def test_the_files_are_up_to_date(name: str) -> None:
    is_same = file_of(name).read_text(encoding="utf-8") == vectors()[name]
    assert is_same, "run `python -m docs.generate_vectors`"


def test_the_validator_and_the_oracle_say_what_the_vectors_say() -> None:
    for vector in MESSAGES:
        payload, registered = vector.payload, vector.registered
        kind = parse_topic(vector.topic).kind
        oracle = judge(None if kind is None else kind.value, payload, registered=registered)
        validator = judged(vector.topic, payload, registered=registered)
        assert (validator.code, oracle.code) == (vector.code, vector.code), vector.id


def test_every_check_of_every_kind_fails_somewhere_and_every_kind_is_accepted() -> None:
    told = {(parse_topic(vector.topic).kind, vector.code) for vector in MESSAGES}
    kinds: set[MessageKind] = {*SYNC_PATHS.values()}
    checked = {
        (kind, rule.code)
        for rule in RULES
        for kind in rule.kinds & kinds
        if rule.code is not RejectionCode.UNKNOWN_TOPIC
    }
    sound: set[tuple[MessageKind | None, RejectionCode | None]] = {(kind, None) for kind in kinds}

    assert checked | sound | {(None, RejectionCode.UNKNOWN_TOPIC)} == told


def test_what_is_repeated_is_told_in_few_bytes() -> None:
    assert len(file_of(REPEATING).read_bytes()) < 100_000
    assert max(len(vector.payload) for vector in MESSAGES) > 600_000
