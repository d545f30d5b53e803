"""What a dry run looks at is spread over all devices."""

import pytest

from ilyama_resources.delta.staged_samples import SampledSum
from ilyama_resources.postgres.staged_backlog import StagedSum
from ilyama_service.sampled_sums import Share, fair_share, within


@pytest.mark.parametrize(
    ("sizes", "most", "share"),
    [
        ([], 9, 0),
        ([5, 4], 9, 5),
        ([5, 5], 9, 4),
        ([1, 100, 100], 21, 10),
        ([1, 2, 3, 100], 100, 94),
        ([7] * 5, 3, 1),
    ],
)
def test_what_a_device_does_not_need_others_have(sizes: list[int], most: int, share: int) -> None:
    assert fair_share(sizes, most) == share


def _sum(device_id: str, drain_id: int, rows: int, size: int) -> StagedSum:
    return StagedSum(device_id, "pumps", "schema_review", "a3", drain_id, rows, size)


def _parts(sums: list[StagedSum], share: Share) -> list[int]:
    found: dict[StagedSum, int] = dict(map(tuple, within(sums, share)))  # type: ignore[arg-type]
    return [found.get(one, 0) for one in sums]


def test_every_device_has_its_share_of_rows() -> None:
    sums = [_sum("a", 1, 5, 50), _sum("b", 1, 20, 10), _sum("a", 2, 5, 50), _sum("a", 3, 5, 50)]
    assert _parts(sums, Share(8, 1_000)) == [5, 8, 3, 0]


def test_every_device_has_its_share_of_bytes() -> None:
    sums = [_sum("a", 1, 5, 50), _sum("b", 1, 20, 20), _sum("a", 2, 5, 500), _sum("a", 3, 5, 50)]
    assert _parts(sums, Share(100, 160)) == [5, 20, 2, 0]


def test_everything_is_looked_at_where_shares_are_large_enough() -> None:
    sums = [_sum("a", 1, 7, 45), _sum("b", 1, 3, 2), _sum("a", 2, 3, 1)]
    share = Share(10, 46)
    assert [*within(sums, share)] == [SampledSum(one, one.rows) for one in sums]
