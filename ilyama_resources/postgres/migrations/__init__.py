"""Alembic migrations: the single authority over the schema."""
