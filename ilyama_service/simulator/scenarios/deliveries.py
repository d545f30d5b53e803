"""What happens to batches on their way, and to the journals they come from."""

from itertools import pairwise

from ilyama_protocol.rejections import RejectionCode
from ilyama_service.simulator.envelopes import Document
from ilyama_service.simulator.messages import Change
from ilyama_service.simulator.scenarios.expected import accepted, duplicate, rejected
from ilyama_service.simulator.scenarios.script import Script
from ilyama_service.simulator.spelling import compact, respelled


def redelivery(device: Script) -> None:
    """A batch is delivered three times, byte for byte."""
    batch = device.batch(device.changes(3))
    device.sends(batch, accepted(3))
    device.sends(batch, duplicate(3))
    device.sends(batch, duplicate(3))


def redelivered_rejection(device: Script) -> None:
    """A batch that was rejected is sent again unchanged."""
    batch = device.batch(device.changes(1), format_version=2)
    for _ in range(2):
        device.sends(batch, rejected(RejectionCode.UNSUPPORTED_FORMAT_VERSION))


def split(device: Script) -> None:
    """Rows that were sent come again in two smaller batches with ids of their own."""
    changes = device.changes(5)
    device.sends(device.batch(changes), accepted(5))
    device.sends(device.batch(changes[:2]), duplicate(2))
    device.sends(device.batch(changes[2:]), duplicate(3))


def merged(device: Script) -> None:
    """Rows that were sent and rows that were not travel in one batch."""
    known, fresh = device.changes(2), device.changes(3)
    device.sends(device.batch(known), accepted(2))
    device.sends(device.batch([*known, *fresh]), accepted(3, known=2))


def reordered_batches(device: Script) -> None:
    """Three batches of one row come in the wrong order: the older changes are late."""
    first, second, third = (device.batch(device.changes(1, pk=1)) for _ in range(3))
    device.sends(third, accepted(1))
    device.sends(first, accepted(1, late=1))
    device.sends(second, accepted(1, late=1))


def reordered_rows(device: Script) -> None:
    """The changes of one row stand in a batch from the last to the first."""
    changes = device.changes(3, pk=1)
    device.sends(device.batch(changes[::-1]), accepted(3, late=2))


def twin_rows(device: Script) -> None:
    """A row stands twice in its batch."""
    changes = device.changes(2)
    device.sends(device.batch([*changes, changes[0]]), accepted(2, known=1))


def respelled_batch(device: Script) -> None:
    """Known rows come in other white space, key order, escapes and exponents."""
    changes = device.changes(3)
    device.sends(device.batch(changes), accepted(3))
    again = respelled(device.batch(changes, announced=False), device.chance)
    device.sends(again.encode(), duplicate(3))


def cloned_device(device: Script) -> None:
    """A copy of the device uses its numbers for other content, and is redelivered too."""
    changes = device.changes(3)
    device.sends(device.batch(changes), accepted(3))
    clone = device.batch([_other(change) for change in changes])
    device.sends(clone, duplicate(3, conflicts=3))
    device.sends(clone, duplicate(3, conflicts=3))


def conflicting_delete(device: Script) -> None:
    """A number that was an update comes again as a delete."""
    [change] = device.changes(1)
    device.sends(device.batch([change]), accepted(1))
    gone = change | {"op": "delete", "row": None}
    device.sends(device.batch([gone]), duplicate(1, conflicts=1))


def quarrelling_twins(device: Script) -> None:
    """One batch has two contents under one number."""
    changes = device.changes(2)
    device.sends(device.batch([*changes, _other(changes[0])]), accepted(2, known=1, conflicts=1))


def journal_rebuilt(device: Script) -> None:
    """A rebuilt journal counts from 1 again under a new epoch, as it should."""
    device.sends(device.batch(device.changes(3)), accepted(3))
    device.rebuild_journal()
    device.sends(device.batch(device.changes(3, state="stopped")), accepted(3))


def journal_rebuilt_under_its_old_epoch(device: Script) -> None:
    """A rebuilt journal counts from 1 again and keeps its epoch: nothing of it is taken."""
    device.sends(device.batch(device.changes(3)), accepted(3))
    device.restart_counter()
    device.sends(device.batch(device.changes(3, state="stopped")), duplicate(3, conflicts=3))


def old_journal_goes_on(device: Script) -> None:
    """After a new epoch, rows of the old one come: late where the row has changed since."""
    before = device.epoch
    device.sends(device.batch(device.changes(1)), accepted(1))
    straggler = device.batch(device.changes(2))
    device.rebuild_journal()
    device.sends(device.batch(device.changes(1)), accepted(1))
    device.sends(straggler | {"journal_epoch": before}, accepted(2, late=1))


def stragglers_of_two_journals(device: Script) -> None:
    """Rows of two journals ago come after those of the newest, then once more."""
    stragglers = []
    for _ in range(2):
        device.sends(device.batch(device.changes(1)), accepted(1))
        stragglers.append(device.batch(device.changes(2)))
        device.rebuild_journal()
    device.sends(device.batch(device.changes(2)), accepted(2))
    for straggler in stragglers:
        device.sends(straggler, accepted(2, late=2))
        device.sends(straggler, duplicate(2))


def batch_id_never_changes(device: Script) -> None:
    """Every batch has one id: rows are told apart by their numbers alone."""
    first = device.batch(device.changes(2))
    device.sends(first, accepted(2))
    for _ in range(2):
        device.sends(device.batch(device.changes(2), batch_id=first["batch_id"]), accepted(2))


def late_rows(device: Script) -> None:
    """An older change of a row comes after a newer one, together with a new row."""
    older, newer, other = device.changes(1), device.changes(1), device.changes(2)[1:]
    device.sends(device.batch(newer), accepted(1))
    device.sends(device.batch([*older, *other]), accepted(2, late=1))
    device.leaves_out(3, 3)


def one_number_for_many_rows(device: Script) -> None:
    """One transaction changes many rows under one number."""
    changes = [change | {"commit_seq": 9} for change in device.changes(4)]
    device.sends(device.batch(changes), accepted(4))
    device.sends(device.batch(changes), duplicate(4))


def one_journal_of_two_tables(device: Script) -> None:
    """Two tables use the very same numbers of their journal."""
    changes = device.changes(2)
    device.sends(device.batch(changes), accepted(2))
    device.sends(device.batch(changes, table="valve"), accepted(2))


def gaps(device: Script) -> None:
    """Numbers are left out, a few and very many: each range is listed as a gap."""
    device.sends(device.batch(device.changes(1)), accepted(1))
    numbers = (1, 7, 2**40, 2**63 - 1)
    for before, number in pairwise(numbers):
        device.leaves_out(before + 1, number - 1)
        [change] = device.changes(1)
        device.sends(device.batch([change | {"commit_seq": number}]), accepted(1))


def clock_jumps(device: Script) -> None:
    """The clock stands at 1970, then far in the future, then back: arrival decides the order."""
    for moment_ms in (0, 2**47, 1_000_000_000_000, 2**48 - 1, 1):
        device.rebuild_journal()
        ids = {"batch_id": device.uuid7(moment_ms), "journal_epoch": device.uuid7(moment_ms)}
        device.sends(device.batch(device.changes(1)) | ids, accepted(1))


def upper_case_ids(device: Script) -> None:
    """Ids are spelt in upper case: they are the same ids."""
    batch = device.batch(device.changes(2))
    device.sends(batch, accepted(2))
    upper = {name: batch[name].upper() for name in ("batch_id", "journal_epoch")}
    device.sends(batch | upper, duplicate(2))


def nulls_and_unknown_members(device: Script) -> None:
    """Optional members are null, a delete has no row, and unknown members are everywhere."""
    [update] = device.changes(1)
    [gone] = device.changes(1, op="delete")
    del gone["row"]
    batch = device.batch([update | {"note": []}, gone], announced=False)
    strange: Document = {"schema_columns": None, "batch_seq": "none", "meta": {"device_id": 1}}
    device.sends(compact(batch | strange).encode(), accepted(2))


def _other(change: Change) -> Change:
    return change | {"row": change["row"] | {"state": "cloned"}}


DELIVERIES = (
    redelivery,
    redelivered_rejection,
    split,
    merged,
    reordered_batches,
    reordered_rows,
    twin_rows,
    respelled_batch,
    cloned_device,
    conflicting_delete,
    quarrelling_twins,
    journal_rebuilt,
    journal_rebuilt_under_its_old_epoch,
    old_journal_goes_on,
    stragglers_of_two_journals,
    batch_id_never_changes,
    late_rows,
    one_number_for_many_rows,
    one_journal_of_two_tables,
    gaps,
    clock_jumps,
    upper_case_ids,
    nulls_and_unknown_members,
)
