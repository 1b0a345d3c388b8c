"""Profilers are followed through a program: into variables, objects and functions."""

from __future__ import annotations

import pytest

from migrating import check

pytest.importorskip("libcst")

MARK = "# stepscope migrate:"


def test_profilers_are_followed_through_the_program() -> None:
    limit = "# stepscope migrate: paddle.profiler has one Profiler at a time"
    one, several = f"{limit}: the one before must be deleted", f"{limit}: delete entered before"
    check(
        """
        import contextlib
        import torch.profiler as tp

        def save(prof, name):
            prof.export_chrome_trace(name)

        def report(p: tp.profile | None):
            print(p.key_averages().table(sort_by="cpu_time_total"))

        def handler(p):
            p.export_chrome_trace("handler")

        class Trainer:
            def __init__(self):
                self.prof = tp.profile(on_trace_ready=self.ready)

            def ready(self, p):
                p.export_chrome_trace("method")

            def run(self):
                self.prof.export_chrome_trace("attribute")
                self.file.export_chrome_trace("something else")

        tp.profile(on_trace_ready=handler)
        tp.profile(on_trace_ready=lambda p: p.export_chrome_trace("lambda"))
        with contextlib.ExitStack() as stack:
            entered = stack.enter_context(tp.profile())
        chosen = tp.profile() if on else contextlib.nullcontext()
        alias = chosen
        save(name="argument", prof=alias)
        alias.export_chrome_trace("alias")
        entered.export_chrome_trace("entered")
        """,
        "paddle",
        f"""
        import contextlib
        import paddle.profiler as tp

        def save(prof, name):
            prof.export(name)

        def report(p: tp.Profiler | None):
            p.summary(sorted_by=tp.SortedKeys.CPUTotal)

        def handler(p):
            p.export("handler")

        class Trainer:
            def __init__(self):
                self.prof = tp.Profiler(on_trace_ready=self.ready)

            def ready(self, p):
                p.export("method")

            def run(self):
                self.prof.export("attribute")
                self.file.export_chrome_trace("something else")

        tp.Profiler(on_trace_ready=handler)  {one}
        tp.Profiler(on_trace_ready=lambda p: p.export("lambda"))  {one}
        with contextlib.ExitStack() as stack:
            entered = stack.enter_context(tp.Profiler())  {one}
        chosen = tp.Profiler() if on else contextlib.nullcontext()  {several}
        alias = chosen
        save(name="argument", prof=alias)
        alias.export("alias")
        entered.export("entered")
        """,
    )


def test_profilers_are_followed_into_objects_and_out_of_functions() -> None:
    check(
        """
        import contextlib
        import paddle.profiler as pp

        class Callback:
            def __init__(self, name, prof):
                self.prof = prof

            def save(self):
                self.prof.export("in a class")

        def build():
            return pp.Profiler()

        @contextlib.contextmanager
        def profiled():
            with pp.Profiler() as p:
                yield p

        made = build()
        callback = Callback("mine", made)
        callback.prof.export("of an object")
        with profiled() as given:
            given.export("yielded")
        """,
        "torch",
        """
        import contextlib
        import torch.profiler as pp

        class Callback:
            def __init__(self, name, prof):
                self.prof = prof

            def save(self):
                self.prof.export_chrome_trace("in a class")

        def build():
            return pp.profile()

        @contextlib.contextmanager
        def profiled():
            with pp.profile() as p:
                yield p

        made = build()
        callback = Callback("mine", made)
        callback.prof.export_chrome_trace("of an object")
        with profiled() as given:
            given.export_chrome_trace("yielded")
        """,
    )
