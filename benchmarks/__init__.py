"""How fast the platform is, against what its users would pick instead: `make bench`.

Every figure is a ratio of two things that are measured in the same run, one after the other and
again, after what they put out was compared with the oracle's answer.
"""
