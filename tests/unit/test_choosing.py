"""Which policies the command line shows."""

import pytest

from ilyama_protocol.governance.policies import PolicyScope
from ilyama_service.cli.policies import asked_for

CHOSEN = [PolicyScope("", ""), PolicyScope("a", ""), PolicyScope("a", "t"), PolicyScope("b", "t")]


@pytest.mark.parametrize(
    ("project", "table", "shown"),
    [
        (None, None, CHOSEN),
        ("a", None, CHOSEN[1:3]),
        ("a", "", CHOSEN[1:2]),
        ("a", "t", CHOSEN[2:3]),
        ("", None, CHOSEN[:1]),
        (None, "t", [PolicyScope("", "t"), *CHOSEN[2:]]),
        ("c", None, [PolicyScope("c", "")]),
        ("c", "t", [PolicyScope("c", "t")]),
    ],
)
def test_policies_are_shown_of_the_project_and_table_that_are_named(
    project: str | None, table: str | None, shown: list[PolicyScope]
) -> None:
    assert asked_for(CHOSEN, project, table) == shown
