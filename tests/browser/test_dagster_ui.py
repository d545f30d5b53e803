"""What a person sees in the browser after devices have published over MQTT."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import ViewportSize, expect

from deploy.setup.browser import NO_BROWSER, find_browser
from ilyama_resources.embedded.ports import LOOPBACK
from tests.browser.viewer import SIZE, Viewer, viewer
from tests.running import RunningStack, running_stack
from tests.waiting import eventually

MESSAGES = 60
DRAINED_WITHIN_S = 240
SHOWN_WITHIN_S = 120
REFUSED, ASKED = "two_faults", "schema_additive"
"""Scenarios that leave rejections, and a schema that waits for a person."""
TALL = ViewportSize(width=1600, height=2800)
"""The graph leaves out what is not in sight."""
GROUPS = ("sources", "intake", "edge", "datapoints", "serving", "lifecycle")
WAY_OF_A_ROW = (
    "sync_rows_batch",
    "raw_batches",
    "row_changes",
    "metric_datapoint",
    "current_value",
)
SENSORS = ("mqtt_ingest", "automation", "failed_runs", "failed_checks", "old_runs")
COUNTS = ("messages received", "rows new", "rows in conflict", "bytes written", "Delta version")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack that has drained what a simulated fleet published."""
    if find_browser() is None:
        pytest.skip(NO_BROWSER)
    with running_stack(tmp_path_factory.mktemp("browser"), run_idle_s=1) as running:
        fleet = ("--devices", "5", "--messages", str(MESSAGES), "--seed", "7", "--rate", "30")
        published = running.ilyama("simulate", *fleet)
        assert published.returncode == 0, published.stderr
        # A message may be delivered twice, and then has two lines.
        assert eventually(lambda: drained(running) >= MESSAGES, within_s=DRAINED_WITHIN_S)
        played = running.ilyama("simulate", "--scenario", REFUSED, "--scenario", ASKED)
        assert played.returncode == 0, played.stderr
        yield running


def drained(stack: RunningStack) -> int:
    return int(stack.get("/v1/ledger")["balance"]["messages"])


@pytest.fixture(scope="module")
def one_viewer(stack: RunningStack) -> Iterator[Viewer]:
    browser = find_browser()
    assert browser is not None
    with viewer(browser, f"http://{LOOPBACK}:{stack.settings.dagster_port}") as made:
        yield made


@pytest.fixture
def person(one_viewer: Viewer) -> Iterator[Viewer]:
    """A viewer who reports whatever error a page shows."""
    one_viewer.page.set_viewport_size(SIZE)
    one_viewer.troubles.clear()
    yield one_viewer
    assert not one_viewer.troubles


def test_nobody_is_asked_anything_on_the_front_page(person: Viewer) -> None:
    person.open("/")
    expect(person.text("intake_job")).to_be_visible()
    person.page.wait_for_load_state("networkidle")
    expect(person.page.get_by_role("dialog")).to_have_count(0)
    expect(person.page.get_by_text("Join the Dagster community")).to_have_count(0)
    person.keep("timeline")


def test_the_run_that_the_sensor_asked_for_has_succeeded(person: Viewer) -> None:
    person.open("/runs")
    for told in ("intake_job", "mqtt_ingest", "Success"):
        expect(person.text(told)).to_be_visible()
    person.keep("runs")
    expect(person.page.get_by_text("Failure", exact=True)).to_have_count(0)


def test_the_lineage_goes_from_the_topics_to_the_current_values(person: Viewer) -> None:
    person.page.set_viewport_size(TALL)
    person.open("/asset-groups")
    for group in GROUPS:
        expect(person.text(group)).to_be_visible()
    person.page.keyboard.press("Alt+e")
    for asset in WAY_OF_A_ROW:
        expect(person.text(asset)).to_be_visible()
    person.keep("lineage")


def test_a_materialization_is_explained_by_counts_and_a_plot(person: Viewer) -> None:
    person.open("/assets/batch_ledger?view=events")
    expect(person.page.get_by_text("materialized in run")).to_be_visible()
    expect(person.page.get_by_role("img", name="run_success").first).to_be_visible()
    for count in COUNTS:
        expect(person.row(count)).to_have_text(re.compile(r"\d"))
    person.keep("materialization")
    person.page.get_by_text("[Show Markdown]").click()
    plot = person.page.get_by_role("img", name="Intake over the last day")
    expect(plot).to_be_visible()
    assert plot.evaluate("image => image.naturalWidth") > 0
    person.keep("plot")


def table_of(person: Viewer, asset: str, titled: str) -> str:
    """What a table in an asset's newest materialization tells; a long one has to be opened."""
    person.open(f"/assets/{asset}?view=events")
    entry = person.row(titled)
    expect(entry).to_be_visible()
    long = entry.get_by_text("[Show Markdown]")
    table = entry.get_by_role("table")
    expect(long.or_(table).first).to_be_visible()
    if long.count():
        long.first.click()
        table = person.page.get_by_role("dialog").get_by_role("table")
        expect(table).to_be_visible()
    person.keep(asset)
    return table.first.inner_text()


@pytest.mark.parametrize(
    ("asset", "titled", "words"),
    [
        pytest.param(
            "rejected_batches",
            "rejections by code, table and firmware",
            ("code", "first", "last", "invalid_batch_id", "envelope_unstripped_tenant_fields"),
            id="rejections",
        ),
        pytest.param(
            "staged_rows",
            "schemas that wait for a person",
            ("review", "class", "staged rows", "compatible_additive"),
            id="reviews",
        ),
    ],
)
def test_what_was_refused_and_what_waits_are_tables_on_their_pages(
    person: Viewer, asset: str, titled: str, words: tuple[str, ...]
) -> None:
    def is_told() -> bool:
        told = table_of(person, asset, titled)
        return all(word in told for word in words)

    assert eventually(is_told, within_s=SHOWN_WITHIN_S)


def test_a_materialization_leads_to_the_sensor_that_asked_for_it(person: Viewer) -> None:
    person.open("/assets/batch_ledger?view=events")
    said = person.page.get_by_text("materialized in run")
    said.get_by_role("link", name=re.compile("^[0-9a-f]{8}$")).click()
    expect(person.page.get_by_text("Launched by mqtt_ingest").first).to_be_visible()
    expect(person.text("Success")).to_be_visible()
    person.keep("run")


def test_a_check_reports_what_it_has_counted(person: Viewer) -> None:
    person.open("/assets/batch_ledger?view=checks&checkDetail=ledger_balance")
    balance = re.compile(r"^Holds\. messages received: (\d+), messages accounted for: \1, rows")
    expect(person.page.get_by_text(balance)).to_be_visible()
    expect(person.text("Passed")).to_be_visible()
    expect(person.row("messages accounted for")).to_have_text(re.compile(r"\d"))
    person.keep("check")


def test_every_sensor_is_switched_on(person: Viewer) -> None:
    person.open("/automation")
    for sensor in SENSORS:
        expect(person.text(sensor)).to_be_visible()
    expect(person.page.get_by_role("checkbox", checked=True)).to_have_count(len(SENSORS))
    person.keep("automation")


def test_a_tick_without_a_run_says_why(person: Viewer) -> None:
    person.open("/locations/ilyama/sensors/mqtt_ingest")
    expect(person.row("Description")).to_contain_text("Lands what devices publish")
    expect(person.page.get_by_text("1 run requested").first).to_be_visible()
    nothing = person.page.get_by_role("button", name="0 runs requested")
    ticks = person.page.get_by_role("row").filter(has=nothing, has_not_text="Evaluating")
    ticks.last.get_by_role("button", name="0 runs requested").click()
    expect(person.page.get_by_role("dialog")).to_contain_text("Skip reason:")
    person.keep("tick")


def test_the_api_explains_itself_without_the_internet(person: Viewer, stack: RunningStack) -> None:
    person.page.goto(f"http://{LOOPBACK}:{stack.settings.api_port}/docs")
    expect(person.page.get_by_text("/v1/current-values").first).to_be_visible()
    person.keep("api")
