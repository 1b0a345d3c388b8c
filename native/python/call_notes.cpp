// What calls of Python functions were made with: shapes and types of tensors, and plain values.
//
// A call is noted with its times and the number of its signature: the operator and its arguments as
// bytes, interned, so that a call like one before costs no memory but its four numbers. A tensor is
// an object of the type that the owner names; it is asked for its ``shape`` and ``dtype``.
#define PY_SSIZE_T_CLEAN
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "python/columns.h"
#include "python/interrupts.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// The first byte of an encoded argument; sources/paddle_inputs.py reads them.
enum Mark : char {
  kOther = 'o',
  kTensor = 't',  // number of the type, rank, sizes
  kBool = 'b',
  kInt = 'i',
  kFloat = 'f',
  kText = 's',  // length, UTF-8
  kList = 'l',  // length, elements
  kName = 'n',  // length, UTF-8: the argument after it was given by that name
};

constexpr Py_ssize_t kLongestList = 16;  // a longer one is data, not an option
constexpr int kDeepestArgument = 4;

// 0: not asked for yet; one syscall a thread.
thread_local pid_t noting_thread = 0;

int64_t thread_id() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { noting_thread = 0; });
  if (!noting_thread) noting_thread = gettid();
  return noting_thread;
}

// Python's lock guards it.
class CallNotes {
 public:
  explicit CallNotes(nb::type_object tensor) : tensor_(std::move(tensor)) {}

  // The number of a call's signature. Never fails: arguments that cannot be read are left out.
  int64_t signature(uint32_t operation, const nb::tuple& args, const nb::dict& kwargs) {
    std::string key = std::move(spare_);  // asking a tensor may let another thread in
    key.clear();
    put(key, operation);
    for (nb::handle argument : args) encode(key, argument.ptr(), 0);
    PyObject* name = nullptr;
    PyObject* argument = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs.ptr(), &at, &name, &argument);) {
      put_text(key, kName, name);
      encode(key, argument, 0);
    }
    const auto [entry, is_new] =
        numbers_.try_emplace(key, static_cast<int64_t>(signatures_.size()));
    if (is_new) signatures_.push_back(&entry->first);
    spare_ = std::move(key);
    return entry->second;
  }

  // Notes a call that ends now, unless it began before the last clear().
  void note(int64_t start_ns, int64_t signature) {
    if (signature >= static_cast<int64_t>(signatures_.size())) return;
    calls_.insert(calls_.end(), {thread_id(), start_ns, Clock::now_ns(), signature});
  }

  nb::tuple noted() const {
    nb::list signatures;
    for (const std::string* key : signatures_) {
      signatures.append(nb::bytes(key->data(), key->size()));
    }
    return nb::make_tuple(to_column(std::vector<int64_t>(calls_)), signatures);
  }

  void clear() {
    calls_ = {};
    signatures_.clear();
    numbers_.clear();
  }

 private:
  template <typename T>
  static void put(std::string& key, T value) {
    const size_t end = key.size();
    key.resize(end + sizeof value);
    std::memcpy(key.data() + end, &value, sizeof value);
  }

  static void put_text(std::string& key, Mark mark, PyObject* text) {
    Py_INCREF(text);
    std::string_view utf8;
    if (utf8_of(&text, &utf8)) {
      key += mark;
      put(key, static_cast<uint32_t>(utf8.size()));
      key += utf8;
    } else {
      PyErr_Clear();
      key += kOther;
    }
    Py_DECREF(text);
  }

  void encode(std::string& key, PyObject* value, int depth) const {
    if (PyBool_Check(value)) {
      key += kBool;
      key += static_cast<char>(value == Py_True);
    } else if (PyLong_CheckExact(value)) {
      put_int(key, value);
    } else if (PyFloat_CheckExact(value)) {
      key += kFloat;
      put(key, PyFloat_AS_DOUBLE(value));
    } else if (PyUnicode_CheckExact(value)) {
      put_text(key, kText, value);
    } else if ((PyList_CheckExact(value) || PyTuple_CheckExact(value)) &&
               depth < kDeepestArgument) {
      encode_list(key, value, depth);
    } else if (PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(tensor_.ptr()))) {
      encode_tensor(key, value);
    } else {
      key += kOther;
    }
  }

  void encode_list(std::string& key, PyObject* list, int depth) const {
    const Py_ssize_t length = std::min(PySequence_Fast_GET_SIZE(list), kLongestList);
    key += kList;
    put(key, static_cast<uint32_t>(length));
    for (Py_ssize_t i = 0; i < length; ++i) {
      // Another thread may have shortened it while a tensor in it was asked.
      if (i < PySequence_Fast_GET_SIZE(list)) {
        const auto element = nb::borrow(PySequence_Fast_GET_ITEM(list, i));
        encode(key, element.ptr(), depth + 1);
      } else {
        key += kOther;
      }
    }
  }

  static void put_int(std::string& key, PyObject* value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    key += overflow ? kOther : kInt;
    if (!overflow) put(key, static_cast<int64_t>(number));
  }

  void encode_tensor(std::string& key, PyObject* value) const {
    const size_t begin = key.size();
    key += kTensor;
    if (put_type(key, value) && put_shape(key, value)) return;
    drop_error();  // a tensor that holds nothing yet
    key.resize(begin);
    key += kOther;
  }

  bool put_type(std::string& key, PyObject* tensor) const {
    const auto type = nb::steal(PyObject_GetAttr(tensor, dtype_.ptr()));
    if (!type.is_valid()) return false;
    const auto number = nb::steal(PyObject_GetAttr(type.ptr(), value_.ptr()));
    return number.is_valid() && put_number(key, number.ptr());
  }

  bool put_shape(std::string& key, PyObject* tensor) const {
    const auto shape = nb::steal(PyObject_GetAttr(tensor, shape_.ptr()));
    if (!shape.is_valid() || !(PyList_Check(shape.ptr()) || PyTuple_Check(shape.ptr()))) {
      return false;
    }
    const Py_ssize_t rank = PySequence_Fast_GET_SIZE(shape.ptr());
    put(key, static_cast<uint32_t>(rank));
    for (Py_ssize_t i = 0; i < rank; ++i) {
      if (!put_number(key, PySequence_Fast_GET_ITEM(shape.ptr(), i))) return false;
    }
    return true;
  }

  static bool put_number(std::string& key, PyObject* number) {
    put(key, static_cast<int64_t>(PyLong_AsLongLong(number)));
    return PyErr_Occurred() == nullptr;
  }

  static nb::str interned(const char* text) {
    return nb::steal<nb::str>(PyUnicode_InternFromString(text));
  }

  nb::type_object tensor_;
  nb::str shape_ = interned("shape");
  nb::str dtype_ = interned("dtype");
  nb::str value_ = interned("value");
  std::string spare_;  // the last key's memory, for the next
  std::unordered_map<std::string, int64_t> numbers_;
  std::vector<const std::string*> signatures_;  // by number; the map's keys stay where they are
  std::vector<int64_t> calls_;                  // thread, start, end, signature; again and again
};

}  // namespace

void bind_call_notes(nb::module_& m) {
  nb::class_<CallNotes>(m, "CallNotes")
      .def(nb::init<nb::type_object>())
      .def("signature", &CallNotes::signature)
      .def("note", &CallNotes::note)
      .def("noted", &CallNotes::noted)
      .def("clear", &CallNotes::clear);
}

}  // namespace stepscope
