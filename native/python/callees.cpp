#include "python/callees.h"

#include <string>
#include <string_view>
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

}  // namespace

const Callee& Callees::learn(PyCodeObject* code) {
  Py_INCREF(code);
  const std::string name = place_name(code, code->co_firstlineno, code->co_name);
  return put({code, reinterpret_cast<PyObject*>(code), Recorder::label(name),
              is_hidden(code, false), is_hidden(code, true), is_library(code), is_watched(code)});
}

const Callee& Callees::learn(PyMethodDef* method, PyObject* self) {
  PyObject* const holder = self && is_holder(self) ? self : nullptr;
  Py_XINCREF(holder);
  const bool is_bound = self && !holder && !PyModule_Check(self);
  const std::string name = builtin_name(method->ml_name, is_bound ? Py_TYPE(self) : nullptr);
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
