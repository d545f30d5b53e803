"""`ilyama check`: ask the validator about payloads before a device sends them."""
