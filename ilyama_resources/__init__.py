"""The outside world: one package or module for each system that the platform talks to."""
