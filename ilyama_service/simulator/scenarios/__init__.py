"""Scenarios: everything that a device can do wrong, by name, with what must come of it.

`script` is the device that does as it is told; `deliveries`, `contents`, `schemas`, `telemetry`,
`telemetry_schemas`, `addresses`, `controls` and `refusals` are the scenarios; `catalog` lists them;
`playing` sends one to a broker and `findings` compares what came of it with what had to.
"""
