"""Governance of schemas in the records: what people are asked, and what was decided."""
