"""Check 12: the columns that a message declares for its table."""

from typing import Any

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, schema_hash
from ilyama_protocol.jsontext import shown
from ilyama_protocol.validation.cases import Case, Fault
from ilyama_protocol.validation.envelopes import is_sequence_number

_AFFINITIES = frozenset(Affinity)
_PATH = "$.schema_columns"


class SchemaFault(Exception):
    """The declared columns do not fit the message that declares them."""

    def __init__(self, json_path: str, message: str) -> None:
        """Remember the place and the sentence."""
        super().__init__(message)
        self.fault = Fault(json_path, message)


def schema_mismatch(case: Case) -> Fault | None:
    """Check 12: declared columns are well formed and hash to `schema_hash`."""
    try:
        case.schema_columns = declared_columns(case.document)
    except SchemaFault as error:
        return error.fault
    return None


def declared_columns(document: dict[str, Any]) -> tuple[SchemaColumn, ...] | None:
    """Return the columns that an envelope declares, None when it declares none.

    Raises:
        SchemaFault: They are malformed, of another table, or do not hash to `schema_hash`.
    """
    declared = document.get("schema_columns")
    if declared is None:
        return None
    if declared.get("table_name") != document["source_table"]:
        raise SchemaFault(f"{_PATH}.table_name", "table_name must equal source_table")
    columns = _columns(declared.get("columns"))
    computed = schema_hash(document["source_table"], columns)
    if computed != document["schema_hash"]:
        raise SchemaFault(
            "$.schema_hash",
            f"schema_columns hash to {computed}; compute schema_hash from the columns you send",
        )
    return columns


def _columns(declared: Any) -> tuple[SchemaColumn, ...]:
    if not isinstance(declared, list):
        raise SchemaFault(f"{_PATH}.columns", "columns must be an array of objects")
    columns: dict[str, SchemaColumn] = {}
    for index, column in enumerate(declared):
        path = f"{_PATH}.columns[{index}]"
        parsed = declared_column(column, path)
        if parsed.name in columns:
            raise SchemaFault(f"{path}.name", f"column {shown(parsed.name)} is named twice")
        columns[parsed.name] = parsed
    return tuple(columns.values())


def declared_column(column: Any, path: str) -> SchemaColumn:
    """Return a column as an envelope declares it.

    Raises:
        SchemaFault: It is malformed.
    """
    if not isinstance(column, dict):
        raise SchemaFault(path, "each column must be an object")
    if not isinstance(name := column.get("name"), str):
        raise SchemaFault(f"{path}.name", "name must be a text")
    affinity = column.get("decl_type_affinity")
    if not isinstance(affinity, str) or affinity not in _AFFINITIES:
        words = ", ".join(Affinity)
        raise SchemaFault(f"{path}.decl_type_affinity", f"decl_type_affinity must be of {words}")
    if not is_sequence_number(ordinal := column.get("pk_ordinal")):
        raise SchemaFault(f"{path}.pk_ordinal", "pk_ordinal must be an integer from 0")
    if not isinstance(not_null := column.get("not_null"), bool):
        raise SchemaFault(f"{path}.not_null", "not_null must be true or false")
    return SchemaColumn(name, Affinity(affinity), pk_ordinal=ordinal, not_null=not_null)
