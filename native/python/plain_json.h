// Plain Python values as JSON, in programs that have not imported the module of that name.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace stepscope {

// Throws nanobind::type_error for what JSON has no form for.
std::string json_of(nanobind::handle value);

}  // namespace stepscope
