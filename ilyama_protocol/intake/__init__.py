"""From the messages of a device to decisions.

`engine` decides, `dedup` tells new rows from known ones, `datapoints` types their values, `state`
is what outlives the drain, `known_keys` what follows from primary keys, `newest_points` what is
current afterwards, `history` what had to be looked up, `digests` the hashes of payloads,
`outcomes` what is written down.
"""
