"""Schema governance: what happens when a device sends a schema that nobody has accepted yet.

Pure rules: a schema is classified (`classification`), the class and the policies (`policies`) rule
on the batch (`ruling`), and what was approved says what becomes of each column (`bindings`).
"""
