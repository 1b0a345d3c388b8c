// The parts of the extension module, one function each.
#pragma once

#include <nanobind/nanobind.h>

namespace stepscope {

void bind_call_notes(nanobind::module_& m);
void bind_calls(nanobind::module_& m);
void bind_chrome_reader(nanobind::module_& m);
void bind_chrome_writer(nanobind::module_& m);
void bind_columns(nanobind::module_& m);
void bind_gc_watch(nanobind::module_& m);
void bind_graph_nodes(nanobind::module_& m);
void bind_tree_passes(nanobind::module_& m);
void bind_heap_samples(nanobind::module_& m);
void bind_interrupts(nanobind::module_& m);
void bind_module_calls(nanobind::module_& m);
void bind_owners(nanobind::module_& m);
void bind_paddle_reader(nanobind::module_& m);
void bind_paddle_writer(nanobind::module_& m);
void bind_perfetto_reader(nanobind::module_& m);
void bind_perfetto_writer(nanobind::module_& m);
void bind_cuda(nanobind::module_& m);
void bind_device_samplers(nanobind::module_& m);
void bind_python_memory(nanobind::module_& m);
void bind_recorder(nanobind::module_& m);
void bind_range(nanobind::module_& m);
void bind_sampler(nanobind::module_& m);
void bind_slices(nanobind::module_& m);
void bind_snapshot_reader(nanobind::module_& m);
void bind_stacks(nanobind::module_& m);
void bind_stream(nanobind::module_& m);
void bind_tasks(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_torch_ranges(nanobind::module_& m);
void bind_watched_frames(nanobind::module_& m);

}  // namespace stepscope
