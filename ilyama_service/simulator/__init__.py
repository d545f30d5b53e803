"""A simulated fleet: devices that behave well and badly, and a judge of what became of it.

`plan` says which fleet; `fleet`, `device`, `source_tables` and `faults` make its messages, the same
for the same plan; `publishing` sends them at a pace; `record` keeps what was sent and acknowledged;
`probing` times how long a value takes to be served; `expectations` and `verification` compare the
record with what the platform holds.
"""
