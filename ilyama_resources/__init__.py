"""The outside world: one module per system the platform talks to."""
