"""The Storage Gateway: the only door to Postgres.

`gateway` opens transactions and locks; `schema` declares the tables; one module per subject holds
the verbs. Migrations are the single authority over the schema.
"""

from ilyama_resources.postgres.gateway import (
    Gateway,
    GatewayRefused,
    GatewayUnavailable,
    LockTaken,
    Transaction,
)

__all__ = ["Gateway", "GatewayRefused", "GatewayUnavailable", "LockTaken", "Transaction"]
