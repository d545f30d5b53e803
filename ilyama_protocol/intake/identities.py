"""The identity of a current value: a hash, because keys and instances may be of any length."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE


def identities(
    device_id: str, key: str, instances: Iterable[str], *, provenance: str = PROVENANCE
) -> Iterator[str]:
    """The identities of a device's values of one key at the given instances, as UUIDs in hex."""
    head = f"{OWNER_KIND}\n{provenance}\n{len(device_id)}:{device_id}{len(key)}:{key}"
    of_key = blake2b(head.encode(), digest_size=16)
    for instance in instances:
        identity = of_key.copy()
        identity.update(instance.encode())
        yield identity.hexdigest()
