"""Worker threads keep what they made in a thread-local list."""

import queue
import threading
import time

store = threading.local()
spare = []


def compute(item):
    return bytes([item % 256]) * 60_000  # allocates


def work(jobs):
    store.results = []
    while True:
        item = jobs.get()
        if item is None:
            return
        result = compute(item)
        if not result:
            spare.append(result)  # never runs
        store.results.append(result)
        sum(range(20000))


def main():
    jobs = queue.Queue()
    threads = [threading.Thread(target=work, args=(jobs,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for item in range(1800):
        jobs.put(item)
        time.sleep(0.002)
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        thread.join()


main()
