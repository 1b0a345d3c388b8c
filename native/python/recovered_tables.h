// What a process left in its stream, as tables for Python.
#pragma once

#include <nanobind/nanobind.h>

#include "stream/recovered.h"

namespace stepscope {

// As the sampler's own, but for what it counted.
nanobind::dict sampled_tables(const Recovered& found, const nanobind::callable& native_text);

// As CUPTI's when it is stopped.
nanobind::dict device_tables(const Recovered& found);

}  // namespace stepscope
