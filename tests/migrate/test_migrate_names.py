"""Which names are the profiler's: imports in every form, scopes, and the objects they make."""

from __future__ import annotations

import pytest

from migrating import check, converted

pytest.importorskip("libcst")

MARK = "# stepscope migrate:"


@pytest.mark.parametrize(
    ("program", "to_paddle", "to_stepscope"),
    [
        (
            "import torch.profiler\nwith torch.profiler.profile(): pass\n",
            "import paddle.profiler\nwith paddle.profiler.Profiler(): pass\n",
            "import stepscope\nwith stepscope.profile(): pass\n",
        ),
        (
            "import torch\nwith torch.profiler.profile(): pass\n",
            "import torch\nimport paddle.profiler\nwith paddle.profiler.Profiler(): pass\n",
            "import torch\nimport stepscope\nwith stepscope.profile(): pass\n",
        ),
        (
            "import torch  # fast\nimport paddle\nwith torch.profiler.profile(): pass\n",
            "import torch  # fast\nimport paddle\nwith paddle.profiler.Profiler(): pass\n",
            "import torch  # fast\nimport stepscope\nimport paddle\n"
            "with stepscope.profile(): pass\n",
        ),
        (
            "import torch as t\nwith t.profiler.profile(): pass\n",
            "import torch as t\nimport paddle.profiler\nwith paddle.profiler.Profiler(): pass\n",
            "import torch as t\nimport stepscope\nwith stepscope.profile(): pass\n",
        ),
        (
            "import torch.profiler\nx = torch.ones(2)\nwith torch.profiler.profile(): pass\n",
            "import torch\nimport paddle.profiler\nx = torch.ones(2)\n"
            "with paddle.profiler.Profiler(): pass\n",
            "import torch\nimport stepscope\nx = torch.ones(2)\nwith stepscope.profile(): pass\n",
        ),
        (
            "import os, torch.profiler as tp\nwith tp.profile(): pass\n",
            "import os, paddle.profiler as tp\nwith tp.Profiler(): pass\n",
            "import os, stepscope as tp\nwith tp.profile(): pass\n",
        ),
        (
            "from torch import profiler\nwith profiler.profile(): pass\n",
            "from paddle import profiler\nwith profiler.Profiler(): pass\n",
            "import stepscope as profiler\nwith profiler.profile(): pass\n",
        ),
        (
            "from torch import nn, profiler as tp\nwith tp.profile(): pass\n",
            "from torch import nn\nfrom paddle import profiler as tp\nwith tp.Profiler(): pass\n",
            "from torch import nn\nimport stepscope as tp\nwith tp.profile(): pass\n",
        ),
        (
            "from torch.profiler import profile as p, record_function\n"
            "with p(), record_function('x'): pass\n",
            "from paddle.profiler import Profiler as p, RecordEvent\n"
            "with p(), RecordEvent('x'): pass\n",
            "from stepscope import profile as p, record_function\n"
            "with p(), record_function('x'): pass\n",
        ),
        (
            "from torch.profiler import *\nwith profile(), record_function('x'): pass\n",
            "from paddle.profiler import Profiler, RecordEvent\n"
            "with Profiler(), RecordEvent('x'): pass\n",
            "from stepscope import profile, record_function\n"
            "with profile(), record_function('x'): pass\n",
        ),
        (
            "def f():\n    from torch.profiler import profile\n    return profile()\n",
            "def f():\n    from paddle.profiler import Profiler\n    return Profiler()\n",
            "def f():\n    from stepscope import profile\n    return profile()\n",
        ),
        (
            "import os; import torch; p = torch.profiler.profile()\n",
            "import os; import torch; import paddle.profiler; p = paddle.profiler.Profiler()\n",
            "import os; import torch; import stepscope; p = stepscope.profile()\n",
        ),
    ],
)
def test_imports_of_torch_in_every_form(program: str, to_paddle: str, to_stepscope: str) -> None:
    assert converted(program, "paddle") == to_paddle
    assert converted(program, "stepscope") == to_stepscope


@pytest.mark.parametrize(
    ("program", "to_torch", "to_stepscope"),
    [
        (
            "import paddle.profiler as profiler\nwith profiler.Profiler(): pass\n",
            "import torch.profiler as profiler\nwith profiler.profile(): pass\n",
            "import stepscope.paddle as profiler\nwith profiler.Profiler(): pass\n",
        ),
        (
            "from paddle import profiler\nwith profiler.Profiler(): pass\n",
            "from torch import profiler\nwith profiler.profile(): pass\n",
            "import stepscope.paddle as profiler\nwith profiler.Profiler(): pass\n",
        ),
        (
            "import paddle\nwith paddle.profiler.Profiler(): pass\n",
            "import paddle\nimport torch.profiler\nwith torch.profiler.profile(): pass\n",
            "import paddle\nimport stepscope.paddle as profiler\nwith profiler.Profiler(): pass\n",
        ),
        (
            "import paddle.profiler\nprofiler = 3\nwith paddle.profiler.Profiler(): pass\n",
            "import torch.profiler\nprofiler = 3\nwith torch.profiler.profile(): pass\n",
            "import stepscope.paddle\nprofiler = 3\nwith stepscope.paddle.Profiler(): pass\n",
        ),
        (
            "from paddle.profiler.utils import RecordEvent\nRecordEvent('x')\n",
            "from torch.profiler import record_function\nrecord_function('x')\n",
            "from stepscope.paddle import RecordEvent\nRecordEvent('x')\n",
        ),
    ],
)
def test_imports_of_paddle(program: str, to_torch: str, to_stepscope: str) -> None:
    assert converted(program, "torch") == to_torch
    assert converted(program, "stepscope") == to_stepscope


@pytest.mark.parametrize(
    ("program", "to_torch", "to_paddle"),
    [
        (
            "from stepscope import profile\nwith profile(): pass\n",
            "from torch.profiler import profile\nwith profile(): pass\n",
            "from paddle.profiler import Profiler\nwith Profiler(): pass\n",
        ),
        (
            "from stepscope.torch import profile\nwith profile(): pass\n",
            "from torch.profiler import profile\nwith profile(): pass\n",
            "from paddle.profiler import Profiler\nwith Profiler(): pass\n",
        ),
        (
            "import stepscope\nt = stepscope.read_trace('t')\nwith stepscope.profile(): pass\n",
            "import stepscope\nimport torch.profiler\nt = stepscope.read_trace('t')\n"
            "with torch.profiler.profile(): pass\n",
            "import stepscope\nimport paddle.profiler\nt = stepscope.read_trace('t')\n"
            "with paddle.profiler.Profiler(): pass\n",
        ),
        (
            "import stepscope as s\nt = s.read_trace('t')\nwith s.profile(): pass\n",
            "import stepscope as s\nimport torch.profiler\nt = s.read_trace('t')\n"
            "with torch.profiler.profile(): pass\n",
            "import stepscope as s\nimport paddle.profiler\nt = s.read_trace('t')\n"
            "with paddle.profiler.Profiler(): pass\n",
        ),
        (
            "from stepscope import paddle as profiler\nwith profiler.Profiler(): pass\n",
            "from torch import profiler\nwith profiler.profile(): pass\n",
            "from paddle import profiler\nwith profiler.Profiler(): pass\n",
        ),
        (
            "from stepscope.paddle import (\n    Profiler,\n    SortedKeys,\n)\n"
            "with Profiler() as p: pass\np.summary(sorted_by=SortedKeys.CPUAvg)\n",
            "from torch.profiler import (\n    profile,\n)\n"
            'with profile() as p: pass\nprint(p.key_averages().table(sort_by="cpu_time"))\n',
            "from paddle.profiler import (\n    Profiler,\n    SortedKeys,\n)\n"
            "with Profiler() as p: pass\np.summary(sorted_by=SortedKeys.CPUAvg)\n",
        ),
    ],
)
def test_imports_of_stepscope(program: str, to_torch: str, to_paddle: str) -> None:
    assert converted(program, "torch") == to_torch
    assert converted(program, "paddle") == to_paddle


@pytest.mark.parametrize(
    "program",
    [
        "import torch\nmodel = torch.nn.Linear(2, 2)\nmodel.step()\n",
        "def profile(schedule): return schedule\nprofile(schedule=3)\n",
        "from cProfile import Profile as profile\nwith profile() as p: pass\np.export('x')\n",
        "from .profiler import profile, record_function\nwith profile(with_stack=True): pass\n",
        "import stepscope\nstepscope.read_trace('t')\n",
        "from torch.autograd import profiler\nwith profiler.profile(use_cuda=True): pass\n",
        "text = 'from torch.profiler import profile'\n",
        "",
    ],
)
@pytest.mark.parametrize("to", ["paddle", "torch", "stepscope"])
def test_what_is_not_the_profilers_is_left_alone(program: str, to: str) -> None:
    from stepscope.migrate.rewrite import migrate

    assert migrate(program, to).sources == ()
    assert converted(program, to) == program


def test_a_local_variable_of_the_same_name_is_left_alone() -> None:
    check(
        """
        from torch.profiler import profile, schedule

        def lr(schedule):
            return schedule(wait=1)

        def other():
            profile = load()
            profile.export_chrome_trace("x")
            prof = open_report()
            prof.export_chrome_trace("y")

        with profile(schedule=schedule(wait=1, warmup=1, active=1)) as prof:
            pass
        prof.export_chrome_trace("z")
        prof = other()
        prof.export_chrome_trace("not a profiler's any more")
        """,
        "paddle",
        """
        from paddle.profiler import Profiler, make_scheduler

        def lr(schedule):
            return schedule(wait=1)

        def other():
            profile = load()
            profile.export_chrome_trace("x")
            prof = open_report()
            prof.export_chrome_trace("y")

        with Profiler(scheduler=make_scheduler(closed=1, ready=1, record=1)) as prof:
            pass
        prof.export("z")
        prof = other()
        prof.export_chrome_trace("not a profiler's any more")
        """,
    )


def test_a_new_name_that_is_taken_leaves_the_old_one() -> None:
    check(
        """
        from torch.profiler import profile

        class Profiler: ...

        with profile(activities=None): pass
        """,
        "paddle",
        """
        from paddle.profiler import Profiler as profile

        class Profiler: ...

        with profile(targets=None): pass
        """,
    )
    check(
        """
        from paddle.profiler import Profiler
        schedule = plan()
        p = Profiler(scheduler=(1, 2))
        """,
        "torch",
        """
        from torch.profiler import profile, schedule as profiler_schedule
        schedule = plan()
        p = profile(schedule=profiler_schedule(wait=0, warmup=1, active=1, repeat=1))
        """,
    )


def test_a_name_with_a_fallback_keeps_its_name() -> None:
    check(
        """
        try:
            from torch.profiler import profile
        except ImportError:
            profile = None
        if profile:
            p = profile(activities=None)
        """,
        "paddle",
        """
        try:
            from paddle.profiler import Profiler as profile
        except ImportError:
            profile = None
        if profile:
            p = profile(targets=None)
        """,
    )


def test_a_name_without_counterpart_stays_imported_and_is_marked() -> None:
    missing = "has no counterpart in paddle.profiler"
    check(
        """
        from torch.profiler import itt, profile, supported_activities
        itt.mark("x")
        with profile(): pass
        """,
        "paddle",
        f"""
        from paddle.profiler import Profiler  {MARK} supported_activities {missing}
        from torch.profiler import itt  {MARK} itt {missing}
        itt.mark("x")  {MARK} itt {missing}
        with Profiler(): pass
        """,
    )
    check(
        """
        import torch.profiler as tp
        tp.itt.mark("x")
        with tp.profile(): pass
        """,
        "paddle",
        f"""
        import paddle.profiler as tp
        import torch.profiler
        torch.profiler.itt.mark("x")  {MARK} itt {missing}
        with tp.Profiler(): pass
        """,
    )


def test_an_enum_that_is_text_there_needs_no_import() -> None:
    check(
        """
        if True:
            from paddle.profiler import SortedKeys
        from paddle.profiler import SortedKeys as K
        keys = [SortedKeys.CPUTotal, K.GPUAvg]
        """,
        "torch",
        """
        if True:
            pass
        keys = ["cpu_time_total", "device_time"]
        """,
    )
