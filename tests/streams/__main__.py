"""`python -m tests.streams --seed 7 --batches 200 OUT.jsonl` writes a stream to a file."""

import argparse
from pathlib import Path

from tests.streams.cloudevents import write_cloudevents
from tests.streams.generator import generate


def main() -> None:
    """Read the arguments, generate, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.streams", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT.jsonl")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--devices", type=int, default=3)
    parser.add_argument("--tables", type=int, default=2)
    parser.add_argument("--fault-rate", type=float, default=0.3)
    options = parser.parse_args()
    events = generate(
        options.seed,
        batches=options.batches,
        devices=options.devices,
        tables=options.tables,
        fault_rate=options.fault_rate,
    )
    write_cloudevents(events, options.out)


if __name__ == "__main__":
    main()
