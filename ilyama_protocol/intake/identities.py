"""The identity of a current value: a hash, because keys and instances may be of any length."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE


def identities(
    device_id: str, places: Iterable[tuple[str, str]], *, provenance: str = PROVENANCE
) -> Iterator[str]:
    """The identities of a device's values at the given keys and instances, as UUIDs in hex."""
    head = f"{OWNER_KIND}\n{provenance}\n{len(device_id)}:{device_id}"
    owner = blake2b(head.encode(), digest_size=16)
    for key, instance in places:
        identity = owner.copy()
        identity.update(f"{len(key)}:{key}{instance}".encode())
        yield identity.hexdigest()
