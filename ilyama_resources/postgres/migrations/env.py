"""Runs migrations on the connection that the gateway hands over."""

from alembic import context

from ilyama_resources.postgres.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
