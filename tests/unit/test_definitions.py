"""What the code location shows: every asset explained, every promise checked."""

from importlib import import_module
from itertools import pairwise

import pytest
import yaml
from dagster import AssetChecksDefinition, AssetKey, Definitions, TableSchema

from ilyama_assets.checks.intake import INTAKE_CHECKS
from ilyama_assets.definitions import defs
from ilyama_assets.jobs import JOBS
from ilyama_assets.sources import SOURCE_KEYS
from ilyama_assets.tables import DATAPOINT_RULES, INTAKE_TABLES, TABLES
from ilyama_resources.delta.data_files import TableContract
from ilyama_resources.settings import REPOSITORY

GRAPH = defs.resolve_asset_graph()
ASSETS = sorted(GRAPH.get_all_asset_keys())
DATAPOINTS = ("metric_datapoint", "state_datapoint")


def test_the_workspace_loads_the_definitions() -> None:
    workspace = yaml.safe_load((REPOSITORY / "workspace.yaml").read_text())

    (target,) = workspace["load_from"]
    module = import_module(target["python_module"]["module_name"])

    assert [value for value in vars(module).values() if isinstance(value, Definitions)] == [defs]
    Definitions.validate_loadable(defs)


@pytest.mark.parametrize("key", ASSETS, ids=AssetKey.to_user_string)
def test_an_asset_presents_itself(key: AssetKey) -> None:
    node = GRAPH.get(key)

    assert node.description
    assert node.group_name != "default"
    assert node.kinds
    assert node.owners


@pytest.mark.parametrize("contract", TABLES.values(), ids=lambda contract: contract.name)
def test_a_table_shows_its_columns_and_constraints(contract: TableContract) -> None:
    shown = GRAPH.get(AssetKey(contract.name)).metadata["dagster/column_schema"]
    schema = getattr(shown, "schema", shown)

    assert isinstance(schema, TableSchema)
    assert [column.name for column in schema.columns] == contract.schema.names
    assert all(column.description for column in schema.columns)
    told = schema.constraints.other if schema.constraints else []
    assert [line.split(":")[0] for line in told] == [*contract.constraints]


@pytest.mark.parametrize("contract", TABLES.values(), ids=lambda contract: contract.name)
def test_no_column_of_a_table_is_named_twice(contract: TableContract) -> None:
    assert len(set(contract.schema.names)) == len(contract.schema.names)


@pytest.mark.parametrize("contract", INTAKE_TABLES, ids=lambda contract: contract.name)
def test_an_intake_table_comes_from_the_devices(contract: TableContract) -> None:
    node = GRAPH.get(AssetKey(contract.name))

    assert node.partitions_def is not None
    assert GRAPH.get_ancestor_asset_keys(node.key) >= {*SOURCE_KEYS}


def test_lineage_goes_from_raw_to_changes_to_datapoints_to_current_values() -> None:
    path = ("raw_batches", "row_changes", "metric_datapoint", "current_value")

    for upstream, downstream in pairwise(path):
        assert AssetKey(upstream) in GRAPH.get(AssetKey(downstream)).parent_keys


@pytest.mark.parametrize("spec", INTAKE_CHECKS, ids=lambda spec: spec.name)
def test_a_check_of_the_drain_is_blocking(spec: object) -> None:
    found = [GRAPH.get_check_spec(known.key) for known in INTAKE_CHECKS if known is spec]

    assert all(known.blocking and known.description for known in found)
    assert len(found) == 1


@pytest.mark.parametrize("table", DATAPOINTS)
@pytest.mark.parametrize("rule", DATAPOINT_RULES)
def test_a_rule_is_checked_on_write_and_over_the_table(table: str, rule: str) -> None:
    names = {key.name for key in GRAPH.get_check_keys_for_assets({AssetKey(table)})}

    assert {rule, f"{rule}_on_write"} <= names


@pytest.mark.parametrize("table", ["current_value", "device_tables"])
def test_a_derived_table_waits_for_the_blocking_checks_of_what_it_comes_from(table: str) -> None:
    condition = GRAPH.get(AssetKey(table)).automation_condition

    assert "blocking_checks_of_deps_hold" in str(condition)


def test_every_check_says_what_it_checks() -> None:
    assert all(GRAPH.get_check_spec(key).description for key in GRAPH.asset_check_keys)


def test_every_check_that_is_no_part_of_a_drain_is_among_the_checks_and_in_the_table() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    for definition in defs.asset_checks or ():
        assert isinstance(definition, AssetChecksDefinition)
        function = definition.node_def.compute_fn.decorated_fn  # type: ignore[attr-defined]
        where = function.__module__
        assert where.startswith("ilyama_assets.checks."), definition
        assert f"`{where.replace('.', '/')}.py`" in page
        assert all(f"`{key.name}`" in page for key in definition.check_keys)


def test_every_sensor_and_every_job_says_what_it_does() -> None:
    repository = defs.get_repository_def()

    assert all(sensor.description for sensor in repository.sensor_defs)
    assert all(repository.get_job(job.name).description for job in JOBS)
