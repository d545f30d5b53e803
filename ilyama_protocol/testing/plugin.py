"""The pytest plugin: fixtures that hold a firmware's messages against the platform's own rules.

`ilyama_check`     the validator: a topic and a payload give a verdict
`ilyama_device`    a device session: publish in order, see what becomes of each message
`ilyama_devices`   makes such sessions: several devices, or one that is not registered
`ilyama_encoding`  canonical JSON, hashes, fingerprints and affinities as the platform makes them

A test that asks for one of these runs once per published vector:

`ilyama_validation_vector`  `ilyama_message_vector`    `ilyama_large_message_vector`
`ilyama_canonical_vector`   `ilyama_schema_vector`     `ilyama_affinity_vector`
`ilyama_datapoint_id_vector`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ilyama_protocol import canonical, fingerprint, identifiers
from ilyama_protocol.rehearsal import DEFAULT_ROOT
from ilyama_protocol.testing.vectors import read
from ilyama_protocol.testing.verdicts import DeviceSession, Verdict, judged
from ilyama_protocol.validation.schemas import declared_column

VECTOR_FIXTURES = {
    "ilyama_validation_vector": "validation",
    "ilyama_message_vector": "messages",
    "ilyama_large_message_vector": "large_messages",
    "ilyama_canonical_vector": "canonical_and_hash",
    "ilyama_datapoint_id_vector": "datapoint_id",
    "ilyama_schema_vector": "schema_fingerprint",
    "ilyama_affinity_vector": "affinity",
}


class Encoding:
    """The encodings of the protocol, to compare one's own with."""

    canonical_json = staticmethod(canonical.canonical_json)
    pk_hash = staticmethod(canonical.pk_hash)
    datapoint_id = staticmethod(identifiers.datapoint_id)
    affinity_of = staticmethod(fingerprint.affinity_of)

    @staticmethod
    def schema_hash(schema_columns: Mapping[str, Any]) -> str:
        """Return the `schema_hash` of a `schema_columns` object."""
        columns = [declared_column(column, "$") for column in schema_columns["columns"]]
        return fingerprint.schema_hash(schema_columns["table_name"], columns)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that ask for vectors once per vector."""
    for fixture, name in VECTOR_FIXTURES.items():
        if fixture in metafunc.fixturenames:
            vectors = read(name)
            metafunc.parametrize(fixture, vectors, ids=[vector.id for vector in vectors])


@pytest.fixture
def ilyama_check() -> Callable[..., Verdict]:
    """Ask the validator: `ilyama_check(topic, payload, registered=True)`."""
    return judged


@pytest.fixture
def ilyama_devices() -> Callable[..., DeviceSession]:
    """Make device sessions: `ilyama_devices(root, registered=True)`."""
    return DeviceSession


@pytest.fixture
def ilyama_device() -> DeviceSession:
    """A registered device that has sent nothing yet."""
    return DeviceSession(DEFAULT_ROOT)


@pytest.fixture
def ilyama_encoding() -> type[Encoding]:
    """The platform's encodings."""
    return Encoding
