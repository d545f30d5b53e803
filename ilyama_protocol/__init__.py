"""The wire contract between devices and the platform.

Pure Python: nothing in this package performs I/O, reads a clock or imports Spark or Dagster; only
`testing`, the kit for firmware projects, reads the vectors that it ships.
"""
