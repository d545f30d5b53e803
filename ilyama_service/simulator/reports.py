"""What a comparison of a run with the platform found."""

import msgspec

EXAMPLES = 5


class MessageFindings(msgspec.Struct):
    """Messages, compared with `batch_ledger`.

    Attributes:
        published: Messages that were handed to the broker.
        acknowledged: Those that it acknowledged.
        visible: Acknowledged messages that have a line.
        lost: Acknowledged messages that have none.
        arrived_again: Lines beyond what was published: deliveries that were repeated on the way.
        to_be_rejected: Acknowledged messages that had to be rejected.
        wrong_outcome: Lines with another outcome or code than expected.
    """

    published: int = 0
    acknowledged: int = 0
    visible: int = 0
    lost: int = 0
    arrived_again: int = 0
    to_be_rejected: int = 0
    wrong_outcome: int = 0


class RowFindings(msgspec.Struct):
    """Rows, compared with `row_changes`.

    Attributes:
        expected: Row keys of acknowledged messages.
        visible: Row keys of the run that are there.
        lost: Expected ones that are not.
        doubled: Keys that are there more than once.
        unexpected: Rows of the run's journals that were never published.
        altered: Rows with other content than came first.
    """

    expected: int = 0
    visible: int = 0
    lost: int = 0
    doubled: int = 0
    unexpected: int = 0
    altered: int = 0


class ValueFindings(msgspec.Struct):
    """Current values, compared with what Postgres serves.

    Attributes:
        compared: Values that were compared.
        wrong: Those that are missing or differ.
        undecided: Primary keys left out: of devices with messages that were not acknowledged, of
            devices that sent something else since, or not served from Postgres.
    """

    compared: int = 0
    wrong: int = 0
    undecided: int = 0


class SampleFindings(msgspec.Struct):
    """Rows of telemetry, compared with `telemetry_samples`.

    Attributes:
        expected: Rows of acknowledged batches.
        visible: Rows of the run's batches that are there.
        lost: Expected ones that are not.
        doubled: Rows of its batches beyond what they had.
    """

    expected: int = 0
    visible: int = 0
    lost: int = 0
    doubled: int = 0


class Report(msgspec.Struct):
    """A run, compared with the platform."""

    run: str
    messages: MessageFindings
    rows: RowFindings
    values: ValueFindings
    examples: list[str]
    samples: SampleFindings = msgspec.field(default_factory=SampleFindings)

    @property
    def is_clean(self) -> bool:
        """Whether everything is as it has to be."""
        faults = (
            *(self.messages.lost, self.messages.wrong_outcome),
            *(self.rows.lost, self.rows.doubled, self.rows.unexpected, self.rows.altered),
            *(self.values.wrong, self.samples.lost, self.samples.doubled),
        )
        return not any(faults)
