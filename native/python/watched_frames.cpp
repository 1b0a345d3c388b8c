#include "python/watched_frames.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "python/interrupts.h"
#include "python/module.h"
#include "python/text.h"
#include "python/unseen.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

struct WatchedCode {
  PyCodeObject* code;
  PyObject* tell;  // a function of the object: its name, or None
  std::unordered_map<const PyObject*, Recorder::Label> labels;
};

std::vector<WatchedCode>& all_watched() {
  static auto* const all = new std::vector<WatchedCode>;
  return *all;
}

WatchedCode* watched_by(const PyCodeObject* code) {
  auto& all = all_watched();
  const auto entry = std::find_if(all.begin(), all.end(), [&](auto& w) { return w.code == code; });
  return entry == all.end() ? nullptr : &*entry;
}

// Asks for the name of an object; without a label if it has none.
Recorder::Label asked_label(PyObject* tell, PyObject* subject) {
  const nb::error_scope keep_error;
  const Unseen unseen;
  PyObject* name = PyObject_CallOneArg(tell, subject);
  Recorder::Label label;
  std::string_view utf8;
  if (name && PyUnicode_Check(name) && utf8_of(&name, &utf8)) label = Recorder::label(utf8);
  drop_error();
  Py_XDECREF(name);
  return label;
}

void watch_frames(nb::object code, nb::object tell) {
  if (watched_by(reinterpret_cast<PyCodeObject*>(code.ptr()))) return;
  auto* const its_code = reinterpret_cast<PyCodeObject*>(code.release().ptr());
  all_watched().push_back({its_code, tell.release().ptr(), {}});
}

void leave_frames(nb::handle code) {
  WatchedCode* const watched = watched_by(reinterpret_cast<PyCodeObject*>(code.ptr()));
  if (!watched) return;
  const nb::object gone_code = nb::steal(reinterpret_cast<PyObject*>(watched->code));
  const nb::object gone_tell = nb::steal(watched->tell);
  all_watched().erase(all_watched().begin() + (watched - all_watched().data()));
}

}  // namespace

bool is_watched(const PyCodeObject* code) { return watched_by(code) != nullptr; }

Recorder::Label watched_label(const PyCodeObject* code, PyObject* subject, Recorder::Label plain) {
  if (subject && PyTuple_CheckExact(subject)) {  // of a function that takes *args
    subject = PyTuple_GET_SIZE(subject) ? PyTuple_GET_ITEM(subject, 0) : nullptr;
  }
  WatchedCode* watched = watched_by(code);
  if (!watched || !subject) return plain;
  const auto entry = watched->labels.find(subject);
  Recorder::Label label;
  if (entry != watched->labels.end()) {
    label = entry->second;
  } else {
    const nb::object keep = nb::borrow(subject);
    const nb::object tell = nb::borrow(watched->tell);
    label = asked_label(tell.ptr(), subject);
    watched = watched_by(code);  // whoever was asked may have changed what is watched
    if (watched) watched->labels.emplace(subject, label);
  }
  return label.generation ? label : plain;
}

void forget_watched_objects() {
  for (WatchedCode& watched : all_watched()) watched.labels.clear();
}

void bind_watched_frames(nb::module_& m) {
  m.def("watch_frames", &watch_frames, nb::arg("code"), nb::arg("tell"));
  m.def("leave_frames", &leave_frames, nb::arg("code"));
  m.def(
      "set_compiler_switch",
      [](nb::object function) {
        PyObject* const before = compiler_switch;
        compiler_switch = function.release().ptr();
        Py_XDECREF(before);
      },
      nb::arg("function"));
}

}  // namespace stepscope
