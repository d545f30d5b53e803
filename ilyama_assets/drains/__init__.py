"""Drains: how landed messages become visible tables, exactly once.

    open → decide → seal → commit → close

`protocol` is the order of the steps; each step has a module of its own name. A drain that was
interrupted goes on from its last finished step.
"""
