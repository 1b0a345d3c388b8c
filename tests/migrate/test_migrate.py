"""Every row of the mapping between torch.profiler and paddle.profiler, in both directions."""

from __future__ import annotations

import pytest

from migrating import check, converted

pytest.importorskip("libcst")

MARK = "# stepscope migrate:"
NO_PADDLE = "no counterpart in paddle.profiler"
NO_TORCH = "no counterpart in torch.profiler"

TORCH = "import torch.profiler as tp\n"
PADDLE = "import paddle.profiler as tp\n"

# torch's line, Paddle's line: each becomes the other.
BOTH_WAYS = [
    ("p = tp.profile()", "p = tp.Profiler()"),
    ("p = tp.profile(activities=[])", "p = tp.Profiler(targets=[])"),
    ("a = tp.ProfilerActivity.CPU", "a = tp.ProfilerTarget.CPU"),
    ("a = tp.ProfilerActivity.CUDA", "a = tp.ProfilerTarget.GPU"),
    ("a = tp.ProfilerActivity.XPU", "a = tp.ProfilerTarget.XPU"),
    ("a = tp.ProfilerActivity.PrivateUse1", "a = tp.ProfilerTarget.CUSTOM_DEVICE"),
    ("a = tp.ProfilerAction.NONE", "a = tp.ProfilerState.CLOSED"),
    ("a = tp.ProfilerAction.WARMUP", "a = tp.ProfilerState.READY"),
    ("a = tp.ProfilerAction.RECORD", "a = tp.ProfilerState.RECORD"),
    ("a = tp.ProfilerAction.RECORD_AND_SAVE", "a = tp.ProfilerState.RECORD_AND_RETURN"),
    ("p = tp.profile(schedule=mine)", "p = tp.Profiler(scheduler=mine)"),
    ("p = tp.profile(on_trace_ready=f)", "p = tp.Profiler(on_trace_ready=f)"),
    ("p = tp.profile(record_shapes=True)", "p = tp.Profiler(record_shapes=True)"),
    ("p = tp.profile(profile_memory=True)", "p = tp.Profiler(profile_memory=True)"),
    (
        "s = tp.schedule(wait=1, warmup=2, active=3, repeat=4, skip_first=5)",
        "s = tp.make_scheduler(closed=1, ready=2, record=3, repeat=4, skip_first=5)",
    ),
    ('h = tp.tensorboard_trace_handler("d")', 'h = tp.export_chrome_tracing("d")'),
    (
        'h = tp.tensorboard_trace_handler(dir_name="d", worker_name="w")',
        'h = tp.export_chrome_tracing(dir_name="d", worker_name="w")',
    ),
    ('r = tp.record_function("x")', 'r = tp.RecordEvent("x")'),
    ('with tp.record_function(name="x"): pass', 'with tp.RecordEvent(name="x"): pass'),
    ('@tp.record_function("x")\ndef f(): pass', '@tp.RecordEvent("x")\ndef f(): pass'),
    (
        'r = tp.record_function("x")\nr.__enter__()\nr.__exit__(None, None, None)',
        'r = tp.RecordEvent("x")\nr.begin()\nr.end()',
    ),
    (
        "with tp.profile() as p:\n    p.start(); p.step(); p.stop(); print(p.step_num)",
        "with tp.Profiler() as p:\n    p.start(); p.step(); p.stop(); print(p.step_num)",
    ),
    (
        "p = tp.profile()\nprint(p.current_action)",
        "p = tp.Profiler()\nprint(p.current_state)",
    ),
    (
        'p = tp.profile()\np.export_chrome_trace("t.json")',
        'p = tp.Profiler()\np.export("t.json")',
    ),
    *(
        (
            f'p = tp.profile()\nprint(p.key_averages().table(sort_by="{sort_by}"))',
            f"p = tp.Profiler()\np.summary(sorted_by=tp.SortedKeys.{key})",
        )
        for sort_by, key in [
            ("cpu_time_total", "CPUTotal"),
            ("cpu_time", "CPUAvg"),
            ("device_time_total", "GPUTotal"),
            ("device_time", "GPUAvg"),
        ]
    ),
    (
        'p = tp.profile()\nprint(p.key_averages().table("cpu_time", time_unit="us"))',
        'p = tp.Profiler()\np.summary(tp.SortedKeys.CPUAvg, time_unit="us")',
    ),
]


@pytest.mark.parametrize(("torch", "paddle"), BOTH_WAYS)
def test_what_both_profilers_have_is_renamed_in_both_directions(torch: str, paddle: str) -> None:
    assert converted(TORCH + torch, "paddle") == PADDLE + paddle
    assert converted(PADDLE + paddle, "torch") == TORCH + torch


ALL_OF_TORCH = "\n".join(torch for torch, _ in BOTH_WAYS)
ALL_OF_PADDLE = "\n".join(paddle for _, paddle in BOTH_WAYS)


@pytest.mark.parametrize(
    ("framework", "ours", "program"),
    [
        ("torch", "import stepscope as tp\n", ALL_OF_TORCH),
        ("paddle", "import stepscope.paddle as tp\n", ALL_OF_PADDLE),
    ],
)
def test_stepscope_takes_both_vocabularies_as_they_are(
    framework: str, ours: str, program: str
) -> None:
    theirs = f"import {framework}.profiler as tp\n"
    assert converted(theirs + program, "stepscope") == ours + program
    assert converted(ours + program, framework) == theirs + program


def test_stepscopes_dialects_are_converted_into_the_other_frameworks_words() -> None:
    for torch, paddle in BOTH_WAYS:
        assert converted("import stepscope as tp\n" + torch, "paddle") == PADDLE + paddle
        assert converted("import stepscope.paddle as tp\n" + paddle, "torch") == TORCH + torch


@pytest.mark.parametrize(
    ("torch", "paddle"),
    [
        *(
            (f"p = tp.profile({name}={value})", f"p = tp.Profiler()  {MARK} {name} has {NO_PADDLE}")
            for name, value in [
                ("with_stack", "True"),
                ("with_flops", "True"),
                ("with_modules", "True"),
                ("experimental_config", "config"),
                ("use_cuda", "True"),
                ("execution_trace_observer", "observer"),
                ("acc_events", "True"),
                ("custom_trace_id_callback", "make_id"),
                ("post_processing_timeout_s", "3"),
            ]
        ),
        (
            "p = tp.profile(with_stack=False, record_shapes=False)",
            "p = tp.Profiler(record_shapes=False)",
        ),
        (
            "s = tp.schedule(wait=1, warmup=1, active=1, skip_first_wait=2)",
            f"s = tp.make_scheduler(closed=1, ready=1, record=1)  "
            f"{MARK} skip_first_wait has {NO_PADDLE}",
        ),
        (
            'h = tp.tensorboard_trace_handler("d", "w", True)',
            f'h = tp.export_chrome_tracing("d", "w")  {MARK} use_gzip has {NO_PADDLE}',
        ),
        (
            'r = tp.record_function("x", "y")',
            f'r = tp.RecordEvent("x")  {MARK} args has {NO_PADDLE}',
        ),
        (
            "a = [tp.ProfilerActivity.CPU, tp.ProfilerActivity.HPU]",
            f"a = [tp.ProfilerTarget.CPU]  {MARK} ProfilerActivity.HPU has {NO_PADDLE}",
        ),
        (
            "p = tp.profile()\nprint(p.key_averages(group_by_input_shape=True).table(row_limit=5))",
            f"p = tp.Profiler()\np.summary()  "
            f"{MARK} group_by_input_shape, row_limit have {NO_PADDLE}",
        ),
        (
            'p = tp.profile()\nprint(p.key_averages().table(sort_by="self_cpu_time_total"))',
            f"p = tp.Profiler()\np.summary(sorted_by=tp.SortedKeys.CPUTotal)  "
            f"{MARK} self_cpu_time_total has {NO_PADDLE}, sorted by CPUTotal",
        ),
        (
            'p = tp.profile()\nprint(p.key_averages().table(sort_by="count"))',
            f'p = tp.Profiler()\np.summary()  {MARK} sort_by="count" has {NO_PADDLE}',
        ),
        ("p = tp.profile()\nprint(p.key_averages())", "p = tp.Profiler()\np.summary()"),
        (
            "p = tp.profile()\ntext = p.key_averages().table()",
            "p = tp.Profiler()\ntext = p.summary()  "
            f"{MARK} summary() of paddle.profiler prints the table and returns None",
        ),
        (
            "p = tp.profile()\nrows = list(p.key_averages())",
            "p = tp.Profiler()\nrows = list(p.key_averages())  "
            f"{MARK} key_averages as a value has {NO_PADDLE}",
        ),
        (
            "p = tp.profile()\nevents = p.events()",
            f"p = tp.Profiler()\nevents = p.events()  {MARK} events has {NO_PADDLE}",
        ),
        *(
            (
                f"p = tp.profile()\np.{call}",
                f"p = tp.Profiler()\n{MARK} {call.partition('(')[0]} has {NO_PADDLE}",
            )
            for call in [
                'export_stacks("s", "self_cpu_time_total")',
                'export_memory_timeline("m.html")',
                'add_metadata("k", "v")',
                'add_metadata_json("k", "1")',
                "toggle_collection_dynamic(True, [])",
            ]
        ),
        (
            "p = tp.profile()\nif bad:\n    p.add_metadata('k', 'v')",
            f"p = tp.Profiler()\nif bad:\n    pass  {MARK} add_metadata has {NO_PADDLE}",
        ),
        (
            'p = tp.profile()\np.export_chrome_trace("t.json.gz")',
            f'p = tp.Profiler()\np.export("t.json.gz")  {MARK} paddle.profiler does not compress',
        ),
        (
            "p = tp.profile(**options)",
            f"p = tp.Profiler(**options)  {MARK} the arguments in **options are not converted",
        ),
    ],
)
def test_what_paddle_lacks_is_marked(torch: str, paddle: str) -> None:
    assert converted(TORCH + torch, "paddle") == PADDLE + paddle


@pytest.mark.parametrize(
    ("paddle", "torch"),
    [
        *(
            (f"p = tp.Profiler({name}={value})", f"p = tp.profile()  {MARK} {name} has {NO_TORCH}")
            for name, value in [
                ("timer_only", "True"),
                ("emit_nvtx", "True"),
                ("custom_device_types", '["x"]'),
            ]
        ),
        ("p = tp.Profiler(timer_only=False)", "p = tp.profile()"),
        ("p = tp.Profiler(with_flops=True)", "p = tp.profile(with_flops=True)"),
        (
            'r = tp.RecordEvent("x", tp.TracerEventType.Forward)',
            f'r = tp.record_function("x")  {MARK} event_type has {NO_TORCH}',
        ),
        (
            'h = tp.export_protobuf("d")',
            f'h = tp.tensorboard_trace_handler("d")  '
            f"{MARK} export_protobuf has {NO_TORCH}, which writes JSON",
        ),
        (
            "p = tp.Profiler()\np.step(num_samples=4)\np.step(4)",
            f"p = tp.profile()\np.step()  {MARK} num_samples has {NO_TORCH}\n"
            f"p.step()  {MARK} num_samples has {NO_TORCH}",
        ),
        (
            'p = tp.Profiler()\nprint("at", p.step_info(unit="images"))',
            f'p = tp.profile()\nprint("at", "")  {MARK} step_info has {NO_TORCH}',
        ),
        (
            'p = tp.Profiler()\np.export("t.json", format="json")',
            'p = tp.profile()\np.export_chrome_trace("t.json")',
        ),
        (
            'p = tp.Profiler()\np.export(path="t.pb", format="pb")',
            f'p = tp.profile()\np.export_chrome_trace(path="t.pb")  '
            f'{MARK} format="pb" has {NO_TORCH}, which writes JSON',
        ),
        (
            "p = tp.Profiler()\np.summary()",
            'p = tp.profile()\nprint(p.key_averages().table(sort_by="cpu_time_total"))',
        ),
        (
            'p = tp.Profiler()\np.summary(thread_sep=True, time_unit="ms")',
            'p = tp.profile()\nprint(p.key_averages().table(sort_by="cpu_time_total", '
            f'time_unit="ms"))  {MARK} thread_sep has {NO_TORCH}',
        ),
        (
            "p = tp.Profiler()\np.summary(tp.SortedKeys.CPUMin, False, False, 's')",
            "p = tp.profile()\nprint(p.key_averages().table(\"cpu_time_total\", time_unit='s'))  "
            f"{MARK} op_detail has {NO_TORCH}; "
            f'SortedKeys.CPUMin has {NO_TORCH}, sorted by "cpu_time_total"',
        ),
        (
            "p = tp.Profiler()\np.summary(time_unit='ns', views=tp.SummaryView.OverView)",
            'p = tp.profile()\nprint(p.key_averages().table(sort_by="cpu_time_total"))  '
            f"{MARK} time_unit='ns', views have {NO_TORCH}",
        ),
        (
            "p = tp.Profiler()\nresult = p.profiler_result",
            f"p = tp.profile()\nresult = p.profiler_result  {MARK} profiler_result has {NO_TORCH}",
        ),
    ],
)
def test_what_torch_lacks_is_marked(paddle: str, torch: str) -> None:
    assert converted(PADDLE + paddle, "torch") == TORCH + torch


@pytest.mark.parametrize(
    ("pair", "schedule"),
    [
        ("(2, 5)", "wait=1, warmup=1, active=3"),
        ("[1, 4]", "wait=0, warmup=1, active=3"),
        ("(0, 4)", "wait=0, warmup=0, active=4"),
        ("(-3, 4)", "wait=0, warmup=0, active=4"),
        ("(2, last)", "wait=1, warmup=1, active=last - 2"),
        (
            "(first, last)",
            "wait=max(first - 1, 0), warmup=min(max(first, 0), 1), active=last - max(first, 0)",
        ),
    ],
)
def test_a_pair_as_scheduler_becomes_the_schedule_that_it_means(pair: str, schedule: str) -> None:
    program = f"p = tp.Profiler(scheduler={pair})"
    expected = f"p = tp.profile(schedule=tp.schedule({schedule}, repeat=1))"
    assert converted(PADDLE + program, "torch") == TORCH + expected


@pytest.mark.parametrize("first", range(-2, 5))
def test_a_pair_of_variables_means_the_same_for_every_value(first: int) -> None:
    from stepscope.migrate.calls import schedule_of

    in_variables = eval(f"dict({schedule_of('first', 'last')})", {"first": first, "last": 7})
    assert in_variables == eval(f"dict({schedule_of(str(first), '7')})")


def test_a_pair_in_a_variable_is_recognised() -> None:
    check(
        """
        from paddle.profiler import Profiler
        window = (3, 6)
        p = Profiler(scheduler=window)
        """,
        "torch",
        """
        from torch.profiler import profile, schedule
        window = (3, 6)
        p = profile(schedule=schedule(wait=max(window[0] - 1, 0), """
        """warmup=min(max(window[0], 0), 1), active=window[1] - max(window[0], 0), repeat=1))
        """,
    )


def test_what_only_stepscope_has_is_marked() -> None:
    check(
        """
        from stepscope import profile, read_trace
        with profile(record_workers=True, with_stack=True) as prof:
            work()
        trace = prof.trace
        other = read_trace("other.json")
        """,
        "torch",
        f"""
        from torch.profiler import profile
        from stepscope import read_trace
        with profile(with_stack=True) as prof:  {MARK} record_workers has {NO_TORCH}
            work()
        trace = prof.trace  {MARK} trace has {NO_TORCH}
        other = read_trace("other.json")
        """,
    )


def test_layout_and_comments_stay() -> None:
    check(
        """
        # How we profile.
        from torch.profiler import (
            profile,          # the profiler
            ProfilerActivity,
            schedule,  # when
        )

        with profile(
            activities=[ ProfilerActivity.CPU,  # the host
                         ProfilerActivity.CUDA ],
            schedule = schedule( wait=1,warmup=1, active=2 ),
            with_stack=True,
            record_shapes=True,
            with_modules=True,  # eager
        ) as prof :
            train( 'x' );  prof.step()   # a step
        print(
            prof.key_averages().table(
                sort_by="cpu_time_total",
                row_limit=10,
            )
        )
        """,
        "paddle",
        f"""
        # How we profile.
        from paddle.profiler import (
            Profiler,          # the profiler
            ProfilerTarget,
            make_scheduler, SortedKeys,  # when
        )

        with Profiler(
            targets=[ ProfilerTarget.CPU,  # the host
                         ProfilerTarget.GPU ],
            scheduler = make_scheduler( closed=1,ready=1, record=2 ),
            {MARK} with_stack has {NO_PADDLE}
            record_shapes=True,
            # eager  {MARK} with_modules has {NO_PADDLE}
        ) as prof :
            train( 'x' );  prof.step()   # a step
        prof.summary(
                sorted_by=SortedKeys.CPUTotal,
                {MARK} row_limit has {NO_PADDLE}
            )
        """,
    )


def test_a_mark_never_lands_in_a_string_or_behind_a_backslash() -> None:
    check(
        '''
        from torch.profiler import profile
        p = profile(with_stack=True, on_trace_ready=handler("""
        """))
        with \\
            profile(with_flops=True) \\
            as q: pass
        ''',
        "paddle",
        f'''
        from paddle.profiler import Profiler
        p = Profiler(on_trace_ready=handler("""
        """))  {MARK} with_stack has {NO_PADDLE}
        p = None  {MARK} paddle.profiler has one Profiler at a time
        with \\
            Profiler() \\
            as q: pass  {MARK} with_flops has {NO_PADDLE}
        ''',
    )
