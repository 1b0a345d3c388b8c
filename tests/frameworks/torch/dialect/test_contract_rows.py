"""Every row of the contract with torch.profiler's users, and which tests hold it."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[3]
HERE = "test_contract_torch"
# The rows as the contract names them, and the tests of each: file, then what follows `test_`.
ROWS: dict[str, dict[str, str]] = {
    "profile": {
        HERE: "whoever_calls_theirs_can_call_ours",
        "test_profile": "everything_goes_by_keyword it_decorates_a_function",
        "test_profile_options": "an_activity_twice_is_an_error no_activity_is_an_error "
        "cuda_alone_is_an_error cpu_and_cuda_warns_where_it_was_written_and_records_the_cpu "
        "an_iterator_works use_cuda_is_deprecated_and_means_what_it_says "
        "what_has_no_effect_is_named_in_one_warning",
        "test_low_level": "a_timeout_of_what_takes_no_time_is_accepted",
    },
    "low-level profile": {
        "test_low_level": "a_run_in_three_parts parts_that_come_too_early_are_errors"
    },
    "schedule": {
        "test_schedules": "every_step_is_torchs a_negative_count_is_named "
        "a_schedule_that_records_nothing_is_refused a_negative_step_is_refused "
        "no_warmup_is_warned_about_where_it_was_written"
    },
    "ProfilerAction": {
        HERE: "actions_are_equal_in_both_worlds",
        "test_session": "a_warmup_that_leads_to_nothing_is_warned_about "
        "a_recording_that_ends_without_save_is_warned_about_and_kept "
        "record_warmup_record_and_save_does_not_crash every_transition_is_in_the_table",
    },
    "step": {
        HERE: "a_schedule_of_either_drives_either",
        "test_profile": "the_callback_runs_once_a_cycle_and_after_the_last_step "
        "step_without_a_schedule_only_counts",
        "test_session": "steps_are_marked_only_while_they_are_recorded",
    },
    "exit": {
        "test_profile": "leaving_in_each_state without_a_cycle_there_are_no_results "
        "an_exception_inside_goes_on_after_the_trace_was_delivered",
        "test_session": "a_stop_during_warmup_delivers_nothing_and_leaves_an_empty_trace",
    },
    "before start": {
        HERE: "before_the_start",
        "test_profile": "before_the_start_there_are_no_results "
        "before_the_start_there_is_nothing_to_export",
        "test_profile_options": "metadata_is_kept_before_during_and_after",
    },
    "while running": {
        "test_profile": "while_it_records_the_events_are_empty_and_an_export_is_refused"
    },
    "stop": {"test_profile": "stopping_twice_keeps_the_results"},
    "restart, acc_events": {
        "test_profile": "a_restart_keeps_the_last_cycle",
        "test_low_level": "acc_events_keeps_all_runs_in_the_order_of_time",
    },
    "nested profilers": {
        "test_profile": "nested_profilers_both_record a_profiler_in_a_thread_while_another_runs"
    },
    "threads": {"test_threads": "user_threads_and_autograd_threads_are_all_there"},
    "DataLoader workers, fork": {
        "test_forks": "a_forked_child_is_clean_and_can_itself_record "
        "data_loader_workers_do_not_disturb",
        "test_workers": "workers_of_a_data_loader_are_processes_of_the_trace",
    },
    "export_chrome_trace": {
        "test_profile_options": "an_export_may_be_repeated_to_any_path",
        "test_export_files": "gzip_holds_the_same_text_with_and_without_isal",
    },
    "add_metadata, add_metadata_json, preset_metadata_json": {
        HERE: "what_is_preset_is_in_the_file",
        "test_profile_options": "hostile_metadata_gives_a_valid_file "
        "metadata_that_is_no_json_is_refused_with_its_value "
        "metadata_is_kept_before_during_and_after",
    },
    "export_stacks": {
        HERE: "stacks_need_no_verbose_config",
        "test_export_stacks": "an_unknown_metric_is_named_with_those_there_are "
        "a_trace_without_stacks_is_refused_with_the_way_out torchs_file_has_the_same_stacks",
    },
    "export_memory_timeline": {
        HERE: "a_memory_timeline_needs_profile_memory_alone",
        "test_memory_timeline": "levels_in_torchs_layout raw_events_in_torchs_layout "
        "an_unknown_suffix_is_refused_with_the_known_ones",
        "test_memory_html": "it_points_nowhere",
    },
    "key_averages": {"test_events": "both_spellings_group_by_shapes"},
    ".table": {
        HERE: "flops_and_sources_stand_under_their_own_headings",
        "test_table": "an_unknown_column_is_named_with_those_there_are the_row_limit "
        "no_events_give_an_empty_text only_top_level_events_and_a_header",
        "test_torch_results": "tables_are_torchs_to_the_character",
    },
    "record_function": {
        "test_range_names": "any_text_is_a_name any_text_goes_along_as_args",
        "test_ranges": "one_object_serves_many_times it_decorates_a_function_and_keeps_what_it_is",
        "test_ranges_in_tasks": "ranges_of_interleaved_tasks_do_not_take_each_others_children",
    },
    "toggle_collection_dynamic": {
        "test_low_level": "what_starts_in_a_pause_is_left_out_as_in_torch"
    },
    "trace id": {
        "test_low_level": "each_cycle_has_an_id_of_its_own "
        "the_callback_may_be_changed_between_cycles",
        "test_profile_options": "the_trace_has_an_id_that_the_user_may_choose",
    },
    "tensorboard_trace_handler": {
        "test_tensorboard": "a_file_is_named_after_worker_and_time the_folder_is_made "
        "a_worker_without_a_name_is_the_host_and_the_process a_folder_that_cannot_be_is_named "
        "a_hostile_worker_stays_in_the_folder"
    },
    "supported_activities, itt.is_available/mark/range_push/range_pop/range, "
    "ExecutionTraceObserver": {
        "test_profile_options": "cpu_is_the_default_and_can_be_recorded",
        "test_itt": "the_names_and_arguments_are_those_of_torch "
        "it_works_beside_a_torch_with_or_without_itt it_needs_no_framework",
        "test_low_level": "torchs_observer_runs_with_the_profiler",
    },
    "with_modules": {
        "test_modules": "modules_go_by_their_qualified_names_and_a_model_by_its_class",
        "test_module_table": "a_backward_function_belongs_to_the_module_of_its_forward_operator",
    },
    "with_flops": {
        "test_flops": "products_are_what_flop_counter_counts "
        "products_by_operator_are_what_torch_profiler_counts",
        "test_flops_formulas": "forward backward softmax_counts_as_the_steps_that_it_is_made_of",
    },
}
# What the contract says of results, in the order in which it does.
RESULTS: dict[str, dict[str, str]] = {
    "lists of events": {
        HERE: "results_can_be_pickled",
        "test_events": "events_are_a_sequence_in_time_order the_text_of_a_list_is_its_table "
        "the_total_is_one_average",
    },
    "attributes of a profiler": {HERE: "attributes_that_code_reads the_inner_profiler"},
    "averages": {
        HERE: "old_names_of_averages_warn_and_work",
        "test_events": "averages_know_what_torchs_know",
        "test_torch_results": "averages_are_torchs",
    },
    "events": {"test_events": "an_event_knows_what_torchs_knows"},
    "units and order": {
        "test_averages": "groups_stand_in_the_order_in_which_they_were_first_seen "
        "a_range_and_an_operator_of_one_name_are_two_groups",
        "test_torch_results": "events_are_torchs",
    },
    "names, folding, memory, stacks": {
        "test_averages": "all_steps_are_one_group an_only_child_with_its_parents_name_is_folded_"
        "into_it hidden_names_leave_their_time_and_children_to_their_parent",
        "test_events": "steps_keep_their_number_in_the_trace_name",
        "test_event_memory": "bytes_belong_to_the_innermost_operator_of_their_thread "
        "what_no_event_covers_becomes_events_of_its_own_in_their_time",
        "test_details_of_torch": "backward_functions_have_the_stack_of_who_made_them",
    },
    "the table": {
        "test_table": "the_whole_table device_columns_appear_with_device_time",
        "test_event_memory": "the_table_has_memory_columns_when_memory_was_recorded",
    },
    "Chrome JSON": {
        "test_export_chrome": "a_recording_looks_like_torch_profilers_file "
        "every_torch_event_comes_back_with_torchs_own_args",
        "test_tensorboard": "its_operators_are_the_ones_that_ran",
    },
}

# Names of torch.profiler that no row is named after.
IN_ANOTHER_ROW = {
    "DeviceType": "events",
    "ProfilerActivity": "profile",
    "events": "lists of events",
    "get_trace_id": "trace id",
    "kineto_available": "supported_activities, itt.is_available/mark/range_push/range_pop/range, "
    "ExecutionTraceObserver",
    "prepare_trace": "low-level profile",
    "set_custom_trace_id_callback": "trace id",
    "start_trace": "low-level profile",
    "stop_trace": "low-level profile",
}

# What torch 2.14 and 2.15 added: named here until tests hold it, too.
NOT_YET = (
    *("activities items", "CuspyConfig", "PerformanceMetricsConfig", "key_averages"),
    *("export_chrome_trace", "wait_for_exports", "FunctionEvent.metadata", "deprecated"),
)


@functools.cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse(next(TESTS.rglob(f"{file}.py")).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", [*ROWS, *RESULTS])
def test_every_row_has_its_tests(row: str) -> None:
    for file, names in (ROWS | RESULTS)[row].items():
        missing = {f"test_{name}" for name in names.split()} - functions_of(file)
        assert not missing, f"{file}.py has no {missing}"


def test_every_public_name_of_torchs_is_in_a_row() -> None:
    profiler = pytest.importorskip("torch.profiler")
    methods = {name for name in dir(profiler.profile) if not name.startswith("_")}
    in_rows = set(re.findall(r"\w+", " ".join([*ROWS, *NOT_YET])))
    assert {*profiler.__all__, *methods} - in_rows == set(IN_ANOTHER_ROW)
    assert set(IN_ANOTHER_ROW.values()) <= {*ROWS, *RESULTS}
