"""Pages of what is numbered as it comes, the newest first."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select


def newest_first(
    query: Select[Any], number: ColumnElement[int], *, before: int | None, limit: int
) -> Select[Any]:
    """The rows with the highest numbers, or the highest below one, from the highest down."""
    page = query.order_by(number.desc()).limit(limit)
    return page if before is None else page.where(number < before)
