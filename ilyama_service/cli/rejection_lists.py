"""Lists of rejections, in groups and one by one, whose words can be copied at any width."""

from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table

from ilyama_resources.postgres.rejections import OPEN_STATES, Rejection, RejectionGroup
from ilyama_service import rejections
from ilyama_service.cli.consoles import console, tables
from ilyama_service.cli.records import safe


def show_groups(groups: Sequence[RejectionGroup]) -> None:
    """Print groups, and below each when it came and its newest rejection."""
    if not groups:
        console.print("No rejection.")
        return
    with tables.capture() as captured:
        tables.print(_table(groups), highlight=False)
    head, *lines = captured.get().splitlines()
    _print(head.rstrip())
    for line, group in zip(lines, groups, strict=True):
        _print(line.rstrip())
        first, last = (f"{at:%Y-%m-%d %H:%M}" for at in group[5:7])
        _print(f"  {first} to {last}  {group.sample_id}")
        _print(f"  {safe(group.sample_message)} ({safe(group.sample_path)})")


def show_each(found: Sequence[Rejection]) -> None:
    """Print rejections one by one."""
    if not found:
        console.print("No rejection.")
    for rejection in found:
        for line in _lines(rejection):
            _print(line)


def _table(groups: Sequence[RejectionGroup]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    numbers = ("count", "open", "devices")
    for name in ("code", "table", "firmware", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=True)
    for group in groups:
        table.add_row(
            group.code,
            escape(safe(group.source_table)) or "-",
            escape(safe(group.firmware_version)),
            f"{group.rejections:,}",
            f"{sum(group.states.get(state, 0) for state in OPEN_STATES):,}",
            f"{group.devices:,}",
        )
    return table


def _lines(rejection: Rejection) -> Iterator[str]:
    state = rejections.told_state(rejection)
    yield f"{rejection.rejection_id}  {rejection.received_at:%Y-%m-%d %H:%M:%S}  {state}"
    device = safe(rejection.device_id) or safe(rejection.topic)
    table, firmware = safe(rejection.source_table) or "-", safe(rejection.firmware_version)
    yield f"  {rejection.code}  {device}  {table}  {firmware}"
    yield f"  {safe(rejection.message)} ({safe(rejection.json_path)})"


def _print(line: str) -> None:
    console.print(line, markup=False, highlight=False)
