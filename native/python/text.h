// Python's texts as UTF-8, and back.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

namespace stepscope {

// The text as UTF-8 that lives as long as the object kept in *holder, an owned reference. A lone
// surrogate has no UTF-8 form: it becomes '?', and the text is still recorded. False: an error is
// set.
bool utf8_of(PyObject** holder, std::string_view* text);

inline PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// Text of a file may be anything; nanobind's own conversion raises on what is not UTF-8.
nanobind::str to_str(std::string_view text);

template <typename Texts>
nanobind::list to_list(const Texts& texts) {
  nanobind::list list;
  for (const auto& text : texts) list.append(to_str(text));
  return list;
}

}  // namespace stepscope
