"""The local stack: every part of the platform on this machine, started and stopped together.

A supervisor (the `supervisor` package) starts the parts, restarts those that die, and stops them in
order. It holds the lock of the stack for as long as it lives; so there is one stack to a home.
"""
