"""Programs without steps: load, build, loop, save; and one that mostly starts up."""

from __future__ import annotations

import time

from own_truth import book, burn, crunch, run_one, timed, wall_ns


@timed
def load() -> None:
    crunch(300)


@timed
def build() -> None:
    burn(200)


@timed
def loop() -> None:
    for item in range(40):
        handle(item)


@timed
def handle(item: int) -> None:
    burn(20)


@timed
def save() -> None:
    with book.waiting("sleep"):
        time.sleep(0.2)
    burn(100)


def phases() -> None:
    load()
    build()
    loop()
    save()


def imports() -> None:
    """Half of the time goes into importing."""
    started = wall_ns()
    import ctypes.util
    import email.mime.multipart
    import http.server
    import multiprocessing.pool
    import sqlite3
    import unittest.mock
    import xml.dom.minidom

    import numpy
    import pandas

    book.facts["startup_ns"] = wall_ns() - started
    build()
    handle(0)
    del ctypes, email, http, multiprocessing, sqlite3, unittest, xml, numpy, pandas


@timed
def first_half() -> None:
    burn(600)


@timed
def second_half() -> None:
    burn(400)


def two_calls() -> None:
    """Each function runs only once."""
    first_half()
    second_half()


@timed
def poll() -> None:
    with book.waiting("sleep"):
        time.sleep(0.03)


def polling() -> None:
    """Sleeping is what the program does most."""
    for _ in range(40):
        poll()
        handle(0)


run_one({"phases": phases, "imports": imports, "two_calls": two_calls, "polling": polling})
