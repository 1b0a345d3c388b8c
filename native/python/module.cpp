#include "python/module.h"

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
  stepscope::bind_tree_passes(m);
  stepscope::bind_heap_samples(m);
  stepscope::bind_module_calls(m);
  stepscope::bind_owners(m);
  stepscope::bind_paddle_reader(m);
  stepscope::bind_paddle_writer(m);
  stepscope::bind_cuda(m);
  stepscope::bind_recorder(m);
  stepscope::bind_range(m);
  stepscope::bind_sampler(m);
  stepscope::bind_slices(m);
  stepscope::bind_stacks(m);
  stepscope::bind_tasks(m);
  stepscope::bind_text(m);
}
