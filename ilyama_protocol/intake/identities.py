"""Where a current value is kept: with those of its family at one instance, under a hash of both."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE

IDENTITY_BYTES = 16


def family_of(key: str) -> str:
    """What a key has in common with others before its first dot: by default, the source table."""
    return key.partition(".")[0]


def identities(
    device_id: str, family: str, instances: Iterable[str], *, provenance: str = PROVENANCE
) -> Iterator[bytes]:
    """The identities of a device's values of one family at the given instances, as UUIDs.

    Keys and instances may be of any length, longer than an index can hold.
    """
    head = f"{OWNER_KIND}\n{provenance}\n{len(device_id)}:{device_id}{len(family)}:{family}"
    of_family = sha256(head.encode())
    for instance in instances:
        identity = of_family.copy()
        identity.update(instance.encode())
        yield identity.digest()[:IDENTITY_BYTES]
