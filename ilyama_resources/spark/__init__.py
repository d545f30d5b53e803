"""Spark: sessions on a warm Connect server, and the resource that runs have of them."""
