"""Devices of one project that disagree in one drain: the first that came stays."""

from ilyama_protocol.governance.agreement import Claim, Place, settled
from ilyama_protocol.governance.policies import Policy
from ilyama_protocol.governance.rules import ProjectRules, TableRules


def claim(
    landed_at: int, device_id: str, *, project: str = "a", table: str = "pumps", **affinities: str
) -> Claim:
    return Claim(Place(landed_at, "segment", 0), device_id, project, table, affinities)


def tables(*claims: Claim, **device_table: str) -> dict[str, str] | None:
    """What the table of pumps is to have for those who are decided again."""
    pinned = {"a": ProjectRules(tables={"pumps": TableRules(Policy(), device_table=device_table)})}
    rules = settled(claims, pinned if device_table else {})
    return None if rules is None else rules["a"].of("pumps").device_table


def test_nobody_disagrees() -> None:
    same = (claim(1, "one", v="TEXT"), claim(2, "two", v="TEXT", w="REAL"))

    assert tables(*same) is None
    assert tables(*same, v="TEXT") is None


def test_the_first_that_came_stays() -> None:
    assert tables(claim(2, "two", v="TEXT"), claim(1, "one", v="REAL")) == {"v": "REAL"}


def test_what_the_table_has_already_stays_too() -> None:
    first, second = claim(1, "one", w="REAL"), claim(2, "two", w="TEXT")

    assert tables(first, second, v="TEXT") == {"v": "TEXT", "w": "REAL"}


def test_of_one_who_lost_nothing_later_counts() -> None:
    lost = (claim(2, "two", v="TEXT"), claim(3, "two", v="REAL", x="TEXT"))

    assert tables(claim(1, "one", v="REAL"), *lost, claim(4, "three", x="REAL")) == {
        "v": "REAL",
        "x": "REAL",
    }


def test_other_projects_and_tables_are_their_own() -> None:
    claims = (claim(1, "one", v="REAL"), claim(2, "two", project="b", v="TEXT"))

    assert tables(*claims, claim(3, "one", table="valves", v="TEXT")) is None


def test_at_one_moment_segment_and_place_decide() -> None:
    first, second = claim(1, "two", v="REAL"), claim(1, "one", v="TEXT")
    later = second._replace(arrived=Place(1, "segment", 1))

    assert tables(later, first) == {"v": "REAL"}
