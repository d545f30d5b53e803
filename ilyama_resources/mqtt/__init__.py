"""MQTT 5: the only place that knows paho.

`address` is where a broker is and how one proves who one is; `connection` is one life of a network
connection, driven by its owner's thread; `client` publishes and listens with reconnects, for
everything that talks to devices or plays one; `subscriber` and `session` land what devices send.
"""
