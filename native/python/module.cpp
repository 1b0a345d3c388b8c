#include "python/module.h"

// The macro below defines this one's name. What it defines must not even begin in a second
// interpreter: nanobind would then use that one's types in the first.
#define PyInit__native init_in_main_interpreter

NB_MODULE(_native, m) {
#if defined(Py_GIL_DISABLED)
  // Python's lock guards much of what follows.
  throw nanobind::import_error(
      "Stepscope does not work with free-threaded builds of Python yet: use the default build");
#endif
  // What a program still records with as it exits is not a leak to report to its user.
  nanobind::set_leak_warnings(false);
  stepscope::bind_call_notes(m);
  stepscope::bind_calls(m);
  stepscope::bind_chrome_reader(m);
  stepscope::bind_chrome_writer(m);
  stepscope::bind_columns(m);
  stepscope::bind_gc_watch(m);
  stepscope::bind_graph_nodes(m);
  stepscope::bind_tree_passes(m);
  stepscope::bind_heap_samples(m);
  stepscope::bind_python_memory(m);
  stepscope::bind_interrupts(m);
  stepscope::bind_module_calls(m);
  stepscope::bind_owners(m);
  stepscope::bind_paddle_reader(m);
  stepscope::bind_paddle_writer(m);
  stepscope::bind_perfetto_reader(m);
  stepscope::bind_perfetto_writer(m);
  stepscope::bind_cuda(m);
  stepscope::bind_device_samplers(m);
  stepscope::bind_recorder(m);
  stepscope::bind_range(m);
  stepscope::bind_sampler(m);
  stepscope::bind_slices(m);
  stepscope::bind_snapshot_reader(m);
  stepscope::bind_stacks(m);
  stepscope::bind_stream(m);
  stepscope::bind_tasks(m);
  stepscope::bind_text(m);
  stepscope::bind_torch_ranges(m);
  stepscope::bind_watched_frames(m);
}

#undef PyInit__native

// The recorder and its hooks belong to the process: a second interpreter would share them without
// sharing the objects that they hold.
extern "C" NB_EXPORT PyObject* PyInit__native() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "Stepscope works in the main interpreter only: import it there, not in a "
                    "subinterpreter");
    return nullptr;
  }
  return init_in_main_interpreter();
}
