#include "python/callees.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "python/code_names.h"
#include "python/watched_frames.h"

namespace stepscope {
namespace {

// pybind11 binds its functions to an object that holds the PyMethodDef, too: that is not a `self`.
bool is_holder(PyObject* self) {
  return PyCapsule_CheckExact(self) ||
         std::string_view(Py_TYPE(self)->tp_name).find("pybind11_detail_function_record") !=
             std::string_view::npos;
}

std::unordered_map<const PyCodeObject*, std::string>& stand_ins() {
  static auto* const all = new std::unordered_map<const PyCodeObject*, std::string>;
  return *all;
}

std::unordered_set<const PyCodeObject*>& lets_through() {
  static auto* const all = new std::unordered_set<const PyCodeObject*>;
  return *all;
}

}  // namespace

void stand_in(PyCodeObject* code, std::string name) {
  if (stand_ins().insert_or_assign(code, std::move(name)).second) Py_INCREF(code);
}

void let_through(PyCodeObject* code) {
  if (lets_through().insert(code).second) Py_INCREF(code);
}

const Callee& Callees::learn(PyCodeObject* code) {
  Py_INCREF(code);
  auto* const keeper = reinterpret_cast<PyObject*>(code);
  const auto stand_in = as_torch_ ? stand_ins().find(code) : stand_ins().end();
  if (stand_in != stand_ins().end()) {
    return put({code, keeper, Recorder::label(stand_in->second), false, false, true, false, true});
  }
  const std::string name = place_name(code, code->co_firstlineno, code->co_name);
  return put({code, keeper, Recorder::label(name), is_hidden(code, false), is_hidden(code, true),
              is_library(code), is_watched(code), false, lets_through().contains(code)});
}

const Callee& Callees::learn(PyMethodDef* method, PyObject* self) {
  PyObject* const holder = self && is_holder(self) ? self : nullptr;
  Py_XINCREF(holder);
  const bool is_bound = self && !holder && !PyModule_Check(self);
  std::string name = builtin_name(method->ml_name, is_bound ? Py_TYPE(self) : nullptr);
  if (as_torch_ && self && !PyModule_Check(self)) {
    name = builtin_name(method->ml_name, Py_TYPE(self), self);
  }
  return put({method, holder, Recorder::label(name)});
}

const Callee& Callees::put(const Callee& callee) {
  if (2 * ++used_ > places_.size()) grow();
  return places_[place_of(callee.key)] = callee;
}

void Callees::grow() {
  const std::vector<Callee> old = std::exchange(places_, std::vector<Callee>(2 * places_.size()));
  mask_ = places_.size() - 1;
  for (const Callee& callee : old) {
    if (callee.key) places_[place_of(callee.key)] = callee;
  }
}

void Callees::clear() {
  const std::vector<Callee> gone = std::exchange(places_, std::vector<Callee>(kFirstPlaces));
  mask_ = kFirstPlaces - 1;
  used_ = 0;
  for (const Callee& callee : gone) Py_XDECREF(callee.keeper);
}

}  // namespace stepscope
