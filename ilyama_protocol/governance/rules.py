"""Rules: everything that was decided before a drain and that its batches are ruled by."""

from __future__ import annotations

import msgspec

from ilyama_protocol.governance.bindings import Actions
from ilyama_protocol.governance.policies import Policy


class TableRules(msgspec.Struct):
    """What is decided of one table in a project.

    `approved` are the actions of approved schemas by hash, None where all are the usual ones;
    `bound` is what they say of columns; `device_table` are the affinities that its columns have.
    """

    policy: Policy
    approved: dict[str, Actions | None] = {}
    bound: Actions = {}
    device_table: dict[str, str] = {}


class ProjectRules(msgspec.Struct):
    """What is decided in one project, or for the devices that have none."""

    policy: Policy = Policy()
    tables: dict[str, TableRules] = {}

    def of(self, source_table: str) -> TableRules:
        """The rules of a table."""
        return self.tables.get(source_table) or TableRules(self.policy)


class DeviceRules(msgspec.Struct):
    """What is decided of one device alone.

    `lapsed` are tables that were paused for reviews which all were abandoned: they go on with the
    first batch whose schema is accepted. `backlog` are tables of which decided rows wait to be
    released. `rejected` are the schemas, by table, on which the last word of a person was no.
    """

    project_id: str | None = None
    pauses: dict[str, list[str]] = {}
    lapsed: list[str] = []
    approved: dict[str, dict[str, Actions | None]] = {}
    backlog: list[str] = []
    rejected: dict[str, list[str]] = {}
