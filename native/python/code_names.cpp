#include "python/code_names.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// The GIL guards them.
struct PathRules {
  std::vector<std::string> prefixes;
  std::string own_folder;
  std::string library_folder;
};

PathRules& path_rules() {
  static auto* const all = new PathRules;
  return *all;
}

std::string text_of(PyObject* text) {
  const nb::error_scope keep_error;
  if (!text || !PyUnicode_Check(text)) return "?";
  Py_INCREF(text);
  std::string_view utf8;
  std::string copy = "?";
  if (utf8_of(&text, &utf8)) copy = utf8;
  Py_DECREF(text);
  return copy;
}

bool lies_in(std::string_view path, std::string_view folder) {
  return !folder.empty() && path.starts_with(folder);
}

std::string_view without_prefix(std::string_view path) {
  for (const std::string& prefix : path_rules().prefixes) {
    if (path.starts_with(prefix)) return path.substr(prefix.size());
  }
  return path;
}

}  // namespace

void set_paths(std::vector<std::string> prefixes, std::string own_folder,
               std::string library_folder) {
  // The longest that fits is the one to leave out.
  std::sort(prefixes.begin(), prefixes.end(),
            [](const auto& a, const auto& b) { return a.size() > b.size(); });
  path_rules() = {std::move(prefixes), std::move(own_folder), std::move(library_folder)};
}

bool is_hidden(std::string_view path, bool caller_is_hidden) {
  if (lies_in(path, path_rules().own_folder)) return true;
  if (!caller_is_hidden) return false;
  if (path.starts_with("<frozen ")) return true;
  return lies_in(path, path_rules().library_folder) && path.find("-packages/") == std::string::npos;
}

bool is_hidden(PyCodeObject* code, bool caller_is_hidden) {
  return is_hidden(file_of(code), caller_is_hidden);
}

bool begins_child(std::string_view path, std::string_view function) {
  return path.ends_with("multiprocessing/process.py") && function.ends_with("_bootstrap");
}

std::string file_of(PyCodeObject* code) { return text_of(code->co_filename); }

std::string function_of(PyCodeObject* code) { return text_of(code->co_name); }

bool is_library(PyCodeObject* code) {
  const std::string path = file_of(code);
  return lies_in(path, path_rules().own_folder) || lies_in(path, path_rules().library_folder) ||
         path.starts_with("<frozen ") || path.find("/site-packages/") != std::string::npos ||
         path.find("/dist-packages/") != std::string::npos;
}

std::string place_name(std::string_view path, int line, std::string_view function) {
  std::string name(without_prefix(path));
  return name.append("(").append(std::to_string(line)).append("): ").append(function);
}

std::string place_name(PyCodeObject* code, int line, PyObject* function) {
  return place_name(file_of(code), line, text_of(function));
}

std::string place_name(PyCodeObject* code, int instruction) {
  const int line = PyCode_Addr2Line(code, instruction);
  return place_name(code, line > 0 ? line : code->co_firstlineno, code->co_qualname);
}

std::string builtin_name(const char* name, PyTypeObject* bound_to, const PyObject* at_address) {
  std::string text = "<built-in ";
  text.append(bound_to ? "method " : "function ").append(name);
  if (bound_to) text.append(" of ").append(bound_to->tp_name).append(" object");
  if (at_address) {  // as repr() has it
    std::array<char, 32> hex{};
    std::snprintf(hex.data(), hex.size(), " at %p", static_cast<const void*>(at_address));
    text.append(hex.data());
  }
  return text.append(">");
}

}  // namespace stepscope
