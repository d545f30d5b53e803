"""Asks a Spark Connect server whether it is there.

Errors:
    SparkUnavailable: the server cannot be reached.
"""

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.client import DefaultChannelBuilder

from ilyama_resources.errors import PlatformError
from ilyama_resources.settings import SettingsError, variable

_LOOKS_LIKE = "the address of a Spark Connect server looks like sc://host:15002/;token=..."


class SparkUnavailable(PlatformError):
    """The Spark Connect server cannot be reached."""


def greet(remote: str, *, within_s: float) -> None:
    """Connect to a Spark Connect server and leave again.

    Raises:
        SparkUnavailable: nobody answers there.
        SettingsError: it is no address of such a server.
    """
    try:
        builder = DefaultChannelBuilder(remote)
    except PySparkException as error:
        # Its own text repeats the address, and with it the token.
        raise SettingsError(f"{variable('spark_remote')} is wrong: {_LOOKS_LIKE}.") from error
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(within_s)
        except grpc.FutureTimeoutError as error:
            raise SparkUnavailable(f"Spark does not answer at {builder.endpoint}.") from error
