"""What importing Stepscope costs and gives."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stepscope
from recording import run_python

HEAVY = {"numpy", "polars", "rich", "torch", "pandas", "pyarrow", "isal", "asyncio"}


def modules_after(code: str) -> set[str]:
    done = run_python(f"import json, sys\n{code}\nprint(json.dumps(list(sys.modules)))")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_importing_it_imports_nothing_heavy() -> None:
    assert not modules_after("import stepscope") & HEAVY


def test_marking_ranges_imports_nothing_heavy() -> None:
    code = """
from stepscope import record_function
with record_function("a"):
    record_function("b")(lambda: None)()
"""
    assert not modules_after(code) & HEAVY


def test_importing_it_imports_few_modules() -> None:
    """Counted, since time on a busy machine says little: what a bare interpreter has not yet."""
    assert len(modules_after("import stepscope") - modules_after("")) < 30


def test_recording_ranges_imports_no_framework() -> None:
    code = """
from stepscope import profile, record_function
with profile() as p, record_function("a"):
    pass
assert [e.name for e in p.events()] == ["a"], p.events()
"""
    assert not modules_after(code) & {"torch", "paddle", "jax", "tensorflow"}


@pytest.mark.parametrize("name", stepscope.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(stepscope, name) is not None
    assert name in dir(stepscope)


def test_the_public_names_are_few_and_sorted() -> None:
    assert len(stepscope.__all__) < 40
    assert list(stepscope.__all__) == sorted(stepscope.__all__)


def test_a_star_import_gives_all_of_them() -> None:
    names: dict[str, Any] = {}
    exec("from stepscope import *", names)
    assert set(stepscope.__all__) <= set(names)


def test_a_name_it_does_not_have() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        stepscope.no_such_name  # noqa: B018
    with pytest.raises(ImportError):
        from stepscope import no_such_name  # noqa: F401


@pytest.mark.parametrize(
    "first",
    [
        "import stepscope.record.schedules",
        "import stepscope.record.session",
        "import stepscope.torch",
    ],
)
def test_schedule_stays_the_function_whatever_is_imported(first: str) -> None:
    code = f"{first}\nimport stepscope\nassert callable(stepscope.schedule), stepscope.schedule\n"
    code += "from stepscope import schedule\nassert callable(schedule)\n"
    code += first + "\nassert callable(stepscope.schedule)"
    modules_after(code)


def test_the_torch_dialect_needs_no_torch() -> None:
    assert "torch" not in modules_after("import stepscope.torch")


def test_torch_imported_after_the_start_is_recorded_too() -> None:
    pytest.importorskip("torch")
    done = run_python(
        """
        import sys
        from stepscope import profile
        with profile() as p:
            assert "torch" not in sys.modules
            import torch
            torch.ones(3).neg()
        import json
        names = [e.name for e in p.events()]
        print(json.dumps([names.count("aten::neg"), p.trace.info.sources["torch"]]))
        assert not any(type(f).__module__.startswith("stepscope") for f in sys.meta_path)
        assert not type(torch.__spec__.loader).__module__.startswith("stepscope")
        """
    )
    assert done.returncode == 0, done.stderr
    count, source = json.loads(done.stdout)
    assert count == 1
    assert "torch" in source


def test_an_import_of_torch_that_fails_is_the_programs_own_affair() -> None:
    done = run_python(
        """
        import sys
        sys.path.insert(0, "/nonexistent")
        from stepscope import profile, record_function
        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name == "torch":
                    raise ModuleNotFoundError("No module named 'torch'", name="torch")
        sys.meta_path.insert(0, Blocked())
        with profile() as p, record_function("a"):
            try:
                import torch
            except ModuleNotFoundError as error:
                print(error)
        print([e.name for e in p.events()], p.trace.info.sources["torch"])
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "No module named 'torch'\n['a'] torch was not imported\n"
