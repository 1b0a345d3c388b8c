"""Several threads: who computes, who waits, and for what."""

from __future__ import annotations

import queue
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from own_truth import book, burn, crunch, run_one, timed


@timed
def fetch() -> None:
    with book.waiting("sleep"):
        time.sleep(0.05)


@timed
def compute() -> None:
    burn(20)


def collect_metrics() -> None:
    while True:
        time.sleep(0.09)
        burn(10)


def background_sleeper() -> None:
    """The main thread waits for its data; a thread in the background hardly does anything."""
    threading.Thread(target=collect_metrics, daemon=True).start()
    for _ in range(25):
        fetch()
        compute()
    book.facts["headline"] = "fetch"


def idle_helper() -> None:
    """A helper sleeps all the time, the main thread never."""
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    for _ in range(50):
        compute()
    book.facts["headline"] = "burn"


def waiting_queue() -> None:
    """The main thread waits for a producer that computes."""
    items: queue.Queue[int] = queue.Queue()

    def produce() -> None:
        for number in range(30):
            with book.part("waiting_queue.<locals>.produce"):
                burn(30)
            items.put(number)

    threading.Thread(target=produce).start()
    for _ in range(30):
        with book.waiting("queue"):
            items.get()
        compute_less()
    book.causes.clear()  # while this thread waits, the other one computes: both are the run's time


@timed
def compute_less() -> None:
    burn(5)


def waiting_lock() -> None:
    """Another thread has the lock for most of the time, and sleeps with it."""
    lock = threading.Lock()
    has_lock = threading.Event()

    def hold() -> None:
        for _ in range(20):
            with lock:
                has_lock.set()
                time.sleep(0.04)
            time.sleep(0.01)

    threading.Thread(target=hold).start()
    for _ in range(15):
        has_lock.wait()
        has_lock.clear()
        with book.part("waiting_lock"):
            with book.waiting("lock"):
                lock.acquire()
            lock.release()
            burn(10)


def waiting_socket() -> None:
    """A client waits for a server in the same process that takes its time."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        while theirs.recv(1):
            time.sleep(0.03)
            theirs.send(b"x")

    threading.Thread(target=answer, daemon=True).start()
    for _ in range(30):
        with book.part("waiting_socket"):
            ours.send(b"x")
            with book.waiting("socket"):
                ours.recv(1)
            burn(15)


@timed
def shrink(milliseconds: float) -> None:
    burn(milliseconds)


@timed
def reduce(milliseconds: float) -> None:
    crunch(milliseconds)


def pool() -> None:
    """The main thread waits for two threads of a pool."""
    with ThreadPoolExecutor(2) as executor:
        for _ in range(20):
            executor.submit(shrink, 20)
            executor.submit(reduce, 15)


def one_after_another() -> None:
    """Threads that are started and joined one by one: as one thread, seen from outside."""
    for _ in range(30):
        thread = threading.Thread(target=compute)
        thread.start()
        thread.join()


def waiting_event() -> None:
    """A timer wakes the main thread."""
    for _ in range(20):
        ready = threading.Event()
        threading.Timer(0.03, ready.set).start()
        with book.part("waiting_event"), book.waiting("lock"):
            ready.wait()
        compute()


run_one(
    {
        "background_sleeper": background_sleeper,
        "idle_helper": idle_helper,
        "queue": waiting_queue,
        "lock": waiting_lock,
        "socket": waiting_socket,
        "pool": pool,
        "one_by_one": one_after_another,
        "event": waiting_event,
    }
)
