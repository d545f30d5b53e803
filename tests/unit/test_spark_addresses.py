"""The address of a Spark Connect server, with the session that a role has there."""

from urllib.parse import urlsplit

import pytest

from ilyama_resources.spark.sessions import with_session


@pytest.mark.parametrize(
    "remote", ["sc://host:15002", "sc://host:15002/", "sc://host:15002/;token=secret", "sc://host"]
)
def test_a_session_is_told_behind_the_port(remote: str) -> None:
    parts = urlsplit(with_session(remote, "intake"))

    assert parts.port in (15002, None)
    assert parts.path.startswith("/;")
    told = dict(pair.split("=") for pair in parts.path.split(";")[1:])
    assert "session_id" in told
    assert told.get("token") == ("secret" if "token" in remote else None)


def test_roles_have_sessions_of_their_own() -> None:
    assert with_session("sc://host", "intake") != with_session("sc://host", "checks")
