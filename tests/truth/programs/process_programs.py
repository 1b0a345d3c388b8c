"""Child processes that compute while their parent waits: the work is theirs."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

from own_truth import book, burn, crunch, run_one, timed

ITEMS = 24


def work(item: int) -> int:
    with book.part("work"):
        burn(50)
    return item


def work_and_write(item: int) -> int:
    work(item)
    write_once_at_the_end()
    return item


def write_once_at_the_end() -> None:
    """A pool ends its processes without running what Python does at an exit."""
    book.write()
    book.functions.clear()


@timed
def prepare() -> None:
    crunch(200)


def pool(method: str) -> None:
    prepare()
    with multiprocessing.get_context(method).Pool(2) as workers:
        workers.map(work_and_write, range(ITEMS), 1)


def executor() -> None:
    prepare()
    with ProcessPoolExecutor(2) as workers:
        list(workers.map(work_and_write, range(ITEMS)))


def fork() -> None:
    prepare()
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            for item in range(8):
                work(item)
            book.write()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def compute() -> None:
    for item in range(ITEMS):
        work(item)


def command() -> None:
    prepare()
    subprocess.run([sys.executable, __file__, "compute"], check=True)


def both_compute() -> None:
    """The parent works as much as its child."""
    child = multiprocessing.get_context("fork").Process(target=child_of_both)
    child.start()
    for _ in range(12):
        prepare_less()
    child.join()


@timed
def prepare_less() -> None:
    crunch(50)


def child_of_both() -> None:
    for item in range(12):
        work(item)
    book.write()


if __name__ == "__main__":
    book.facts["no_gain"] = True
    run_one(
        {
            "pool_fork": lambda: pool("fork"),
            "pool_spawn": lambda: pool("spawn"),
            "executor": executor,
            "fork": fork,
            "command": command,
            "compute": compute,
            "both": both_compute,
        }
    )
