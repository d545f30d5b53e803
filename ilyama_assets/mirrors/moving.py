"""Devices that belong to another project now: their rows follow them with the next run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from ilyama_assets.derived import Progress
from ilyama_assets.mirrors.placing import remembered
from ilyama_assets.mirrors.writing import MirrorParts
from ilyama_resources.delta.device_tables import DEVICE_TABLES, Mirror
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.postgres.derived_runs import DerivedRun


class MirrorProgress(Progress):
    """How far the device tables have come; devices that moved are due without any new drain."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(DEVICE_TABLES, gateway)

    def _begin(self, tx: Transaction, run: DerivedRun) -> None:
        if tx.device_table_moves.take(run.number):
            tx.derived_runs.open(run)
        else:
            super()._begin(tx, run)

    def _settle(self, tx: Transaction, run: DerivedRun) -> None:
        tx.device_table_moves.settle(run.number)


class Moves(NamedTuple):
    """The devices that moved before a run."""

    devices: Collection[str]
    """Their rows come into the mirrors of the projects in which they are now."""
    leaving: Mapping[Mirror, Collection[str]]
    """The mirrors of other projects, and whose rows go out of each."""


NOBODY_MOVED: Final = Moves((), {})


def moves_of(parts: MirrorParts, run: DerivedRun) -> Moves:
    """Which devices a run takes along; one that moves meanwhile is for the next run."""
    with parts.gateway.transaction() as tx:
        noted = tx.device_table_moves.of_run(run.number)
    if not noted:
        return NOBODY_MOVED
    known = remembered(parts.gateway, {one.device_id for one in noted})
    leaving: dict[Mirror, set[str]] = {}
    for device_id, project_id in noted:
        for source_table in known.source_tables(device_id):
            mirror = Mirror(source_table, project_id)
            if mirror != known.mirror_of(device_id, source_table):
                leaving.setdefault(mirror, set()).add(device_id)
    return Moves({one.device_id for one in noted}, leaving)
