from ilyama_resources.mqtt.backoff import Backoff


def test_delays_double_up_to_the_longest_and_are_cut_by_half_at_most() -> None:
    backoff = Backoff(first_s=1, longest_s=10)
    for whole in (1, 2, 4, 8, 10, 10):
        assert whole / 2 <= backoff.next_delay() <= whole


def test_delays_of_two_clients_differ() -> None:
    one, two = Backoff(), Backoff()
    assert [one.next_delay() for _ in range(5)] != [two.next_delay() for _ in range(5)]


def test_after_a_success_it_begins_anew() -> None:
    backoff = Backoff(first_s=1, longest_s=100)
    for _ in range(5):
        backoff.next_delay()
    backoff.reset()
    assert backoff.next_delay() <= 1
