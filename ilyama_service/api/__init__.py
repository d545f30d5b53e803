"""The HTTP API: the door for CloudEvents, and for whoever reads what the platform knows.

`app` composes it; one module per group of routes (`ingest`, `current_values`, `ledger`, `drains`,
`devices`, `health`); the rest is what they share. `python -m ilyama_service.api` serves it.
"""
