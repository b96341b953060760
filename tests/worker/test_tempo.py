"""The rate in the worker's row: of the last minute, whatever came before."""

from jobqueue.worker.tempo import Tempo


def test_the_first_look_knows_no_rate() -> None:
    assert Tempo().look(100.0, 7) is None


def test_the_rate_is_that_of_the_last_minute() -> None:
    tempo = Tempo()
    for second in range(0, 100, 10):
        tempo.look(float(second), 1_000 * second)  # busy for a while

    rates = [tempo.look(float(second), 90_000) for second in range(100, 200, 10)]  # and idle since

    assert rates[0] == 50_000 / 60
    assert rates[-1] == 0


def test_a_pause_longer_than_a_minute_is_divided_by_all_of_it() -> None:
    tempo = Tempo()
    tempo.look(0.0, 0)
    tempo.look(10.0, 0)

    assert tempo.look(310.0, 600) == 2


def test_only_the_last_minute_is_kept() -> None:
    tempo = Tempo()
    for second in range(10_000):
        tempo.look(float(second), second)

    assert len(tempo._looks) <= 62
