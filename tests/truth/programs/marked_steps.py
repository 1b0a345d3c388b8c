"""Steps that the program marks, in plain Python."""

from __future__ import annotations

import random
import threading
import time

from own_truth import book, burn, crunch, run_one, timed

from stepscope import record_function


def marked(number: int) -> record_function:
    return record_function(f"ProfilerStep#{number}")


@timed
def work(milliseconds: float) -> None:
    with book.cause("python"):
        burn(milliseconds)


def even() -> None:
    for number in range(60):
        with marked(number), book.step():
            work(15)
            with book.cause("c"):
                crunch(10)


def shorter_than_a_sample() -> None:
    for number in range(4000):
        with marked(number), book.step():
            work(0.25)


def only_one() -> None:
    with marked(0), book.step():
        work(800)


def uneven() -> None:
    generator = random.Random(1)
    for number in range(60):
        with marked(number), book.step():
            work(generator.choice([4, 12, 40]))


@timed
def wait() -> None:
    with book.waiting("sleep"):
        time.sleep(0.01)


def with_waits() -> None:
    for number in range(60):
        with marked(number), book.step():
            work(10)
            wait()


def of_two_threads() -> None:
    """Two threads that each do thirty steps, and take turns at the interpreter."""

    def steps() -> None:
        for number in range(30):
            with marked(number), book.step():
                work(10)
                wait()

    workers = [threading.Thread(target=steps) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


run_one(
    {
        "even": even,
        "short": shorter_than_a_sample,
        "one": only_one,
        "uneven": uneven,
        "waits": with_waits,
        "threads": of_two_threads,
    }
)
