// Notes which parameters, gradients and optimizer states own blocks of memory. It looks at them in
// every training step, which would take too long in Python.
#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/recorder.h"
#include "python/interrupts.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// As in stepscope.trace.model.MemoryOwner.
constexpr uint8_t kGradient = 2;
constexpr uint8_t kInput = 4;

constexpr int kDeepestInput = 4;  // how far tensors are looked for in lists of lists

struct OwnerNames {
  PyObject* data_ptr = interned("data_ptr");
  PyObject* grad = interned("grad");
  PyObject* grad_fn = interned("grad_fn");
  PyObject* is_cpu = interned("is_cpu");
  PyObject* nbytes = interned("nbytes");
  PyObject* param_groups = interned("param_groups");
  PyObject* params = interned("params");
  PyObject* storage_offset = interned("storage_offset");
  PyObject* enter = interned("__enter__");
  PyObject* exit = interned("__exit__");
};

const OwnerNames& owner_names() {
  static const OwnerNames* const only = new OwnerNames;
  return *only;
}

// ---- questions to objects; what fails leaves an exception, and its caller clears it

nb::object attribute(nb::handle object, PyObject* name) {
  return nb::steal(PyObject_GetAttr(object.ptr(), name));
}

bool is(nb::handle object, PyObject* name, PyObject* expected) {
  return attribute(object, name).ptr() == expected;
}

// -1 without an object.
int64_t number(nb::handle object) { return object ? PyLong_AsSsize_t(object.ptr()) : -1; }

int64_t called(nb::handle object, PyObject* method) {
  return number(nb::steal(PyObject_CallMethodNoArgs(object.ptr(), method)));
}

// Stays in a context manager of Python's while it lives. Tensors are asked in one that disables the
// TorchFunctionModes of the program.
class Within {
 public:
  explicit Within(nb::handle make) : context_(nb::steal(PyObject_CallNoArgs(make.ptr()))) {
    if (context_) is_inside_ = nb::steal(call(owner_names().enter)).is_valid();
    drop_error();
  }
  ~Within() {
    if (is_inside_) nb::steal(call(owner_names().exit, Py_None));
    drop_error();
  }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  PyObject* call(PyObject* method, PyObject* nothing = nullptr) {
    return PyObject_CallMethodObjArgs(context_.ptr(), method, nothing, nothing, nothing, nullptr);
  }
  nb::object context_;
  bool is_inside_ = false;
};

// How many parameters an optimizer has; -1 when it is like none.
int64_t count_of(nb::handle optimizer) {
  const nb::object groups = attribute(optimizer, owner_names().param_groups);
  if (!groups || !PyList_Check(groups.ptr())) return -1;
  int64_t count = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups.ptr()); ++i) {
    PyObject* const group = PyList_GET_ITEM(groups.ptr(), i);
    PyObject* const params =
        PyDict_Check(group) ? PyDict_GetItem(group, owner_names().params) : nullptr;
    if (!params || !PyList_Check(params)) return -1;
    count += PyList_GET_SIZE(params);
  }
  return count;
}

// ---- what was seen

// Values of objects that it does not keep alive.
template <typename Value>
class WeakMap {
 public:
  WeakMap() = default;
  WeakMap(const WeakMap&) = delete;
  WeakMap& operator=(const WeakMap&) = delete;

  Value* find(nb::handle object) {
    const auto place = entries_.find(object.ptr());
    return place == entries_.end() ? nullptr : &place->second.value;
  }
  void set(nb::handle object, Value value) {
    PyObject* const key = object.ptr();
    nb::object forget = nb::cpp_function([this, key](nb::object) { entries_.extract(key); });
    nb::object gone = nb::steal(PyWeakref_NewRef(key, forget.ptr()));
    if (!gone) return drop_error();
    const auto before = entries_.extract(key);
    entries_.emplace(key, Entry{std::move(gone), std::move(value)});
  }
  void clear() { std::exchange(entries_, {}); }

 private:
  struct Entry {
    nb::object gone;  // a weak reference; its callback takes the entry away
    Value value;
  };
  std::unordered_map<PyObject*, Entry> entries_;
};

// What is known of a gradient before it exists: its size and device are those of its parameter.
struct Gradient {
  nb::object parameter;  // one whose gradient is a plain tensor
  int64_t bytes;
  Device device;
};
struct Optimizer {
  std::vector<Gradient> gradients;
  nb::tuple others;  // parameters whose gradients are not
  int64_t parameter_count = 0;
  bool has_stepped = false;
};
struct Model {};

// The hooks themselves, called on any thread. New optimizers and models, and tensors that are not
// plain, are passed to a listener in Python.
class OwnerHooks {
 public:
  OwnerHooks(nb::object listener, nb::object plain, nb::object note, nb::object unseen)
      : listener_(std::move(listener)),
        plain_(std::move(plain)),
        note_(std::move(note)),
        unseen_(std::move(unseen)) {}

  // Forget all that was seen; what is called from now on does nothing.
  void stop() {
    is_stopped_ = true;
    optimizers_.clear();
    models_.clear();
  }

  // Take what is known of an optimizer's parameters; a device is a word of the core's.
  void know_optimizer(nb::handle optimizer, nb::tuple parameters, const std::vector<int64_t>& bytes,
                      const std::vector<uint32_t>& devices, nb::tuple others) {
    auto state = std::make_shared<Optimizer>();
    for (size_t i = 0; i < parameters.size(); ++i) {
      state->gradients.push_back({parameters[i], bytes.at(i), Device::of(devices.at(i))});
    }
    state->parameter_count = static_cast<int64_t>(parameters.size() + others.size());
    state->others = std::move(others);
    if (const auto* before = optimizers_.find(optimizer))
      state->has_stepped = (*before)->has_stepped;
    if (!is_stopped_) optimizers_.set(optimizer, std::move(state));
  }

  // Gradients are new blocks in most steps, and gone before the next.
  void before_step(nb::handle optimizer, nb::handle, nb::handle) {
    if (is_stopped_) return;
    const Within unseen(unseen_);
    auto state = optimizer_of(optimizer);
    if (!state || state->parameter_count != count_of(optimizer)) {
      drop_error();
      listener_.attr("learn_optimizer")(optimizer);
      state = optimizer_of(optimizer);
      if (!state) return;
    }
    for (const auto& [parameter, bytes, device] : state->gradients) {
      const nb::object gradient = attribute(parameter, owner_names().grad);
      if (gradient && !gradient.is_none())
        note(called(gradient, owner_names().data_ptr), bytes, device, kGradient);
      drop_error();  // a missing statement is no reason to break a training
    }
    if (state->others.size()) listener_.attr("tell_gradients")(state->others);
  }

  void after_step(nb::handle optimizer, nb::handle, nb::handle) {
    if (is_stopped_) return;
    awaits_model_ = true;
    const auto state = optimizer_of(optimizer);
    if (state && state->has_stepped) return;
    if (state) state->has_stepped = true;
    const Within unseen(unseen_);
    listener_.attr("tell_optimizer")(optimizer);
  }

  bool awaits_model() const { return awaits_model_ && !is_stopped_; }

  // Of all models that are called between two steps of optimizers, only the first is looked at.
  void before_forward(nb::handle module, nb::handle args, nb::handle kwargs) {
    if (!awaits_model()) return;
    awaits_model_ = false;
    const Within unseen(unseen_);
    tell_inputs(args, 1);
    if (!kwargs.is_none()) tell_inputs(kwargs, 1);
    drop_error();
    if (models_.find(module)) return;
    models_.set(module, {});
    listener_.attr("tell_model")(module);
  }

 private:
  std::shared_ptr<Optimizer> optimizer_of(nb::handle optimizer) {
    const auto* state = optimizers_.find(optimizer);
    return state ? *state : nullptr;
  }

  // Notes the tensors in lists, tuples and dicts, nested up to a depth.
  void tell_inputs(nb::handle value, int depth) {
    PyObject* const object = value.ptr();
    if (value.type().is(plain_)) return tell_input(value);
    if (value.is_none() || PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object))
      return;
    const bool is_dict = PyDict_Check(object);
    if (!is_dict && !PyList_Check(object) && !PyTuple_Check(object))
      return static_cast<void>(listener_.attr("tell_input")(value));
    if (depth == kDeepestInput) return;
    // A copy: the calls below may run code that changes the program's list.
    const nb::object all = is_dict                ? nb::steal(PyDict_Values(object))
                           : PyList_Check(object) ? nb::steal(PyList_AsTuple(object))
                                                  : nb::borrow(value);
    PyObject* const fast = all.ptr();
    for (Py_ssize_t i = 0; fast && i < PySequence_Fast_GET_SIZE(fast); ++i)
      tell_inputs(PySequence_Fast_GET_ITEM(fast, i), depth + 1);
  }

  // Notes a plain tensor, unless an operator made it.
  void tell_input(nb::handle tensor) {
    const bool is_whole_on_cpu = is(tensor, owner_names().is_cpu, Py_True) &&
                                 called(tensor, owner_names().storage_offset) == 0;
    if (is_whole_on_cpu) {
      const bool is_made = !is(tensor, owner_names().grad_fn, Py_None);
      const int64_t address = is_made ? 0 : called(tensor, owner_names().data_ptr);
      if (address > 0)
        note(address, number(attribute(tensor, owner_names().nbytes)), kCpuDevice, kInput);
      drop_error();
    } else {
      drop_error();
      listener_.attr("tell_input")(tensor);
    }
  }

  void note(int64_t address, int64_t bytes, Device device, uint8_t owner) {
    if (address <= 0 || bytes <= 0) return;
    if (note_.is_none())
      Recorder::owned(static_cast<uintptr_t>(address), bytes, device, owner);
    else
      nb::steal(PyObject_CallFunction(note_.ptr(), "LLiii", static_cast<long long>(address),
                                      static_cast<long long>(bytes), device.type, device.index,
                                      owner));
  }

  nb::object listener_;
  nb::object plain_;   // the type of plain tensors
  nb::object note_;    // who is told instead of the recorder, or None
  nb::object unseen_;  // what makes a context in which tensors are asked
  bool awaits_model_ = true;
  bool is_stopped_ = false;
  WeakMap<std::shared_ptr<Optimizer>> optimizers_;
  WeakMap<Model> models_;
};

}  // namespace

void bind_owners(nb::module_& m) {
  nb::class_<OwnerHooks>(m, "OwnerHooks")
      .def(nb::init<nb::object, nb::object, nb::object, nb::object>(), nb::arg(), nb::arg(),
           nb::arg().none(), nb::arg())
      .def("know_optimizer", &OwnerHooks::know_optimizer)
      .def("before_step", &OwnerHooks::before_step)
      .def("after_step", &OwnerHooks::after_step)
      .def("awaits_model", &OwnerHooks::awaits_model)
      .def("before_forward", &OwnerHooks::before_forward, nb::arg(), nb::arg(), nb::arg().none())
      .def("stop", &OwnerHooks::stop);
}

}  // namespace stepscope
