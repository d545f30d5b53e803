"""When assets and checks are brought up to date without anybody asking."""

from typing import Any

from dagster import AutomationCondition

_EVERY_TEN_MINUTES = "*/10 * * * *"
_EVERY_HOUR = "23 * * * *"
_EVERY_NIGHT = "17 3 * * *"


def after_new_drains() -> AutomationCondition[Any]:
    """When intake has new drains and its blocking checks hold.

    What a drain wrote is remembered until it is derived, since its checks are told after it. A
    check that the next run of intake is going to report is no obstacle, for under steady traffic
    there is always a next run; a drain that breaks a check is held before it is visible.
    """
    holds = AutomationCondition.check_passed() | AutomationCondition.in_progress()
    return (
        AutomationCondition.any_deps_updated().since_last_handled()
        & AutomationCondition.all_deps_match(
            AutomationCondition.all_checks_match(holds, blocking_only=True)
        ).with_label("blocking_checks_of_deps_hold")
        & ~AutomationCondition.in_progress()
    )


def now_and_then_after_new_drains() -> AutomationCondition[Any]:
    """The same, at first and then not more often than every ten minutes: for what takes a while."""
    its_turn = AutomationCondition.cron_tick_passed(_EVERY_TEN_MINUTES)
    return after_new_drains() & (its_turn | AutomationCondition.missing())


def now_and_then() -> AutomationCondition[Any]:
    """Every ten minutes."""
    return _at(_EVERY_TEN_MINUTES)


def every_hour() -> AutomationCondition[Any]:
    """Once an hour: for what reads the newest days."""
    return _at_first_and(_EVERY_HOUR)


def every_night() -> AutomationCondition[Any]:
    """Once a night: for what reads whole tables."""
    return _at_first_and(_EVERY_NIGHT)


def _at_first_and(schedule: str) -> AutomationCondition[Any]:
    """At its time; what was never looked at does not wait a night for it."""
    soon = AutomationCondition.cron_tick_passed(_EVERY_TEN_MINUTES)
    its_turn = AutomationCondition.cron_tick_passed(schedule)
    is_new = soon & AutomationCondition.missing()
    return (its_turn | is_new) & ~AutomationCondition.in_progress()


def _at(schedule: str) -> AutomationCondition[Any]:
    return AutomationCondition.cron_tick_passed(schedule) & ~AutomationCondition.in_progress()
