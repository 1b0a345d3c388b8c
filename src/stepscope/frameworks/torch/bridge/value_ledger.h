// Numbers what operators compute: of an operator, its arguments and the numbers of its inputs.
//
// Equal numbers mean that the same was computed before. It is recorded which data each operator
// reads, makes and changes; which of that was needless is for the analysis to find out.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bridge_state.h"
#include "storage_values.h"

namespace stepscope {
namespace {

// What the ledger has to know about an operator.
struct OperatorFacts {
  bool is_composite = false;  // it only calls other operators
  bool is_random = false;
  bool is_empty = false;        // its result has no defined content
  bool overwrites = false;      // it replaces all of the tensor that it changes
  bool never_equal = false;     // its result depends on more than its inputs
  int chance_position = -1;     // of the probability below which a random operator is not random
  uint64_t name = 0;            // a hash
  std::vector<bool> changes;    // by position, whether it changes that input
  std::vector<bool> is_output;  // by position, whether the input is replaced as a whole
};

inline bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

OperatorFacts facts_of(const at::RecordFunction& fn) {
  OperatorFacts facts;
  const auto name = fn.operator_name();
  const auto handle = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  const std::string_view text(fn.name());
  facts.name = hash_of(text.data(), text.size());
  if (!handle) {
    facts.never_equal = true;
    return facts;
  }
  facts.name = hash_of(name->overload_name.data(), name->overload_name.size(), facts.name);
  facts.is_composite = handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  facts.is_random = handle->hasTag(at::Tag::nondeterministic_seeded);
  facts.is_empty = starts_with(text, "aten::empty") || starts_with(text, "aten::new_empty");
  facts.overwrites = text == "aten::copy_" || text == "aten::zero_" || text == "aten::fill_";
  // Others than torch's own may keep a state; a batch norm updates its averages unannounced.
  facts.never_equal = !starts_with(text, "aten::") ||
                      text.find("batch_norm") != std::string_view::npos ||
                      text == "aten::_local_scalar_dense";
  const bool only_views = handle->hasTag(at::Tag::inplace_view);  // it changes no data
  const auto& arguments = handle->schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* const alias = arguments[i].alias_info();
    facts.changes.push_back(alias && alias->isWrite() && !only_views);
    facts.is_output.push_back(arguments[i].is_out());
    if (arguments[i].name() == "dropout_p" || arguments[i].name() == "p") {
      facts.chance_position = static_cast<int>(i);
    }
  }
  return facts;
}

// Whether this call draws random numbers.
bool draws(const OperatorFacts& facts, const at::RecordFunction& fn) {
  if (!facts.is_random) return false;
  const auto inputs = fn.inputs();
  if (facts.chance_position < 0 || static_cast<size_t>(facts.chance_position) >= inputs.size()) {
    return true;
  }
  const c10::IValue& chance = inputs[facts.chance_position];
  return !chance.isDouble() || chance.toDouble() != 0.0;
}

// A tensor that an operator has among its inputs.
struct TensorRead {
  const c10::StorageImpl* impl;
  uint64_t number;  // of its storage
  uint64_t value;
  Extent extent;  // without bytes where only the operator writes
  uint16_t position;
  bool is_changed;
};

// An operator that runs and computes something itself.
struct RunningUse {
  const OperatorFacts* facts = nullptr;
  uint64_t ticks = 0;  // when its slice began
  uint64_t hash = 0;
  bool is_unique = false;
  std::vector<TensorRead> reads;
  std::vector<std::pair<at::Tensor, uint16_t>> changed;

  void clear() {
    reads.clear();
    changed.clear();
    is_unique = false;
    ticks = 0;
  }
};

enum class Level : uint8_t { kCaller, kComputes, kInside };

struct ThreadUses {
  std::vector<Level> levels;  // of the operators that run on this thread
  bool is_inside = false;     // one of them computes
  RunningUse running;
};
using MyUses = ThreadsOwn<ThreadUses>;

constexpr int64_t kMostUses = int64_t{1} << 20;

struct ValueLedger {
  std::mutex mutex;
  StorageValues storages;
  std::unordered_map<const void*, OperatorFacts> facts;  // by the address of the name
  std::atomic<int64_t> uses_left{0};

  const OperatorFacts& facts_for(const at::RecordFunction& fn) {
    const auto entry = facts.find(fn.name());
    return entry != facts.end() ? entry->second
                                : facts.emplace(fn.name(), facts_of(fn)).first->second;
  }
};
ValueLedger* value_ledger = new ValueLedger;  // never destroyed: threads may outlive static objects

// Hashes the inputs of an operator that begins.
class InputHash {
 public:
  InputHash(RunningUse& running, StorageValues& storages)
      : running_(running), storages_(storages) {}

  void add(const c10::IValue& value, size_t position) {
    position_ = static_cast<uint16_t>(position);
    const bool changes =
        position < running_.facts->changes.size() && running_.facts->changes[position];
    const bool is_output = changes && running_.facts->is_output[position];
    if (value.isTensor()) {
      add_tensor(value.toTensor(), changes, is_output);
    } else if (value.isTensorList() || (value.isList() && changes)) {
      const auto tensors = value.toListRef();
      mix(tensors.size());
      for (const c10::IValue& tensor : tensors) {
        if (tensor.isTensor()) add_tensor(tensor.toTensor(), changes, is_output);
      }
    } else {
      add_scalar(value);
    }
  }

 private:
  void mix(uint64_t word) { running_.hash = mixed(running_.hash, word); }

  void add_scalar(const c10::IValue& value) {
    if (value.isNone()) return mix(1);
    if (value.isInt()) return mix(static_cast<uint64_t>(value.toInt()));
    if (value.isBool()) return mix(value.toBool() ? 3 : 2);
    if (value.isDouble()) {
      const double number = value.toDouble();
      return mix(hash_of(&number, sizeof(number)));
    }
    if (value.isString()) {
      const std::string& text = value.toStringRef();
      return mix(hash_of(text.data(), text.size()));
    }
    if (value.isDevice())
      return mix(static_cast<uint64_t>(std::hash<c10::Device>{}(value.toDevice())));
    if (!value.isList()) {
      running_.is_unique = true;
      return;
    }
    const auto values = value.toListRef();
    mix(values.size());
    for (const c10::IValue& element : values) {
      if (element.isTensor()) {
        add_tensor(element.toTensor(), false, false);
      } else {
        add_scalar(element);
      }
    }
  }

  void add_tensor(const at::Tensor& tensor, bool is_changed, bool is_output) {
    if (!tensor.defined()) return mix(1);
    if (!is_plain(tensor)) {
      running_.is_unique = true;
      return;
    }
    const auto* const impl = tensor.unsafeGetTensorImpl();
    StorageValue& storage = storages_.of(tensor);
    const uint64_t value = storages_.value_of(tensor, storage);
    Extent extent = extent_of(*impl);
    const auto* const its_storage = impl->unsafe_storage().unsafeGetStorageImpl();
    // What it held before does not matter where all of it is replaced.
    const bool is_replaced = is_changed && extent.bytes == its_storage->nbytes() &&
                             (is_output || running_.facts->overwrites);
    if (is_replaced) {
      mix(extent.bytes);
      extent.bytes = 0;
      mix(static_cast<uint64_t>(tensor.scalar_type()));
      mix(hash_of(impl->strides().data(), impl->strides().size() * sizeof(int64_t)));
      for (const int64_t size : impl->sizes()) mix(static_cast<uint64_t>(size));
    } else {
      mix(value);
    }
    if (is_changed) running_.changed.emplace_back(tensor, position_);
    running_.reads.push_back({its_storage, storage.number, value, extent, position_, is_changed});
  }

  RunningUse& running_;
  StorageValues& storages_;
  uint16_t position_ = 0;
};

std::unique_ptr<at::ObserverContext> on_use_start(const at::RecordFunction& fn) {
  ThreadUses* const mine = MyUses::get();
  if (!mine) return nullptr;
  ValueLedger& ledger = *value_ledger;
  if (kind_of_name(&fn) == STEPSCOPE_NAME_PASSES ||
      ledger.uses_left.load(std::memory_order_relaxed) <= 0) {
    mine->levels.push_back(Level::kCaller);
    return nullptr;
  }
  const std::lock_guard<std::mutex> lock(ledger.mutex);
  const OperatorFacts& facts = ledger.facts_for(fn);
  if (mine->is_inside) {
    mine->levels.push_back(Level::kInside);
    if (draws(facts, fn)) mine->running.is_unique = true;
    return nullptr;
  }
  if (facts.is_composite || is_plumbing(fn.name())) {
    mine->levels.push_back(Level::kCaller);
    return nullptr;
  }
  mine->levels.push_back(Level::kComputes);
  mine->is_inside = true;
  RunningUse& running = mine->running;
  running.clear();
  running.facts = &facts;
  running.hash = facts.name;
  running.is_unique = facts.never_equal || draws(facts, fn);
  InputHash hash(running, ledger.storages);
  size_t position = 0;
  for (const c10::IValue& value : fn.inputs()) hash.add(value, position++);
  running.ticks = core.ticks();
  return nullptr;
}

// Note what an operator did, once its outputs are there.
void note_uses(ValueLedger& ledger, const RunningUse& running, const at::RecordFunction& fn) {
  struct Made {
    StorageValue* storage;
    Extent extent;
  };
  thread_local std::vector<Made> made;
  made.clear();
  bool has_views = false;
  const auto read_before = [&](const c10::StorageImpl* impl) {
    return std::any_of(running.reads.begin(), running.reads.end(),
                       [&](const TensorRead& read) { return read.impl == impl; });
  };
  const uint64_t hash = running.is_unique ? ledger.storages.unique() : running.hash;
  const auto add = [&](const at::Tensor& tensor) {
    if (!is_plain(tensor)) return;
    auto* const impl = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    if (read_before(impl)) {
      has_views = true;
      return;
    }
    StorageValue& storage = ledger.storages.of(tensor);
    storage.is_shared = running.facts->is_empty;
    ledger.storages.set(tensor, storage,
                        storage.is_shared ? ledger.storages.unique() : mixed(hash, made.size()));
    made.push_back({&storage, extent_of(*tensor.unsafeGetTensorImpl())});
  };
  for (const c10::IValue& output : fn.outputs()) {
    if (output.isTensor()) {
      add(output.toTensor());
    } else if (output.isTensorList()) {
      for (const c10::IValue& tensor : output.toListRef()) add(tensor.toTensor());
    }
  }
  if (has_views && made.empty() && running.changed.empty()) return;  // it reads no data
  const auto note = [&](uint64_t storage, UseRole role, Extent extent, size_t position,
                        uint64_t value) {
    StorageValues::use(storage, role, extent, position, value, running.ticks);
    ledger.uses_left.fetch_sub(1, std::memory_order_relaxed);
  };
  for (const TensorRead& read : running.reads) {
    if (read.extent.bytes)
      note(read.number, UseRole::kRead, read.extent, read.position, read.value);
  }
  size_t position = 0;
  for (const auto& [storage, extent] : made) {
    note(storage->number, UseRole::kMade, extent, position++, storage->value);
  }
  for (const auto& [tensor, input] : running.changed) {
    if (!is_plain(tensor)) continue;
    StorageValue& storage = ledger.storages.of(tensor);
    ledger.storages.set(tensor, storage, mixed(hash, 0x100 + input + position++));
    note(storage.number, UseRole::kChanged, extent_of(*tensor.unsafeGetTensorImpl()), input,
         storage.value);
  }
}

void on_use_end(const at::RecordFunction& fn, at::ObserverContext*) {
  ThreadUses* const mine = MyUses::existing();
  if (!mine || mine->levels.empty()) return;
  const Level level = mine->levels.back();
  mine->levels.pop_back();
  if (level != Level::kComputes) return;
  mine->is_inside = false;
  ValueLedger& ledger = *value_ledger;
  {
    const std::lock_guard<std::mutex> lock(ledger.mutex);
    note_uses(ledger, mine->running, fn);
  }
  mine->running.clear();
}

at::RecordFunctionCallback ledger_callback() {
  return at::RecordFunctionCallback(&on_use_start, &on_use_end)
      .needsInputs(true)
      .needsOutputs(true)
      .scopes({at::RecordScope::FUNCTION});
}

void begin_ledger() { value_ledger->uses_left = kMostUses; }

void end_ledger() {
  const std::lock_guard<std::mutex> lock(value_ledger->mutex);
  value_ledger->storages.sweep();
  value_ledger->uses_left = 0;
}

// In a forked child, where another thread may have been in the middle of a change.
void leave_ledger_of_parent() { value_ledger = new ValueLedger; }

// Code outside of torch got hold of a tensor's data: it may read all, and change it at any time.
void note_escape(const c10::TensorImpl* impl) {
  ValueLedger& ledger = *value_ledger;
  if (ledger.uses_left.load(std::memory_order_relaxed) <= 0) return;
  const auto tensor = at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(
      const_cast<c10::TensorImpl*>(impl)));
  if (!is_plain(tensor)) return;
  const std::lock_guard<std::mutex> lock(ledger.mutex);
  StorageValue& storage = ledger.storages.of(tensor);
  storage.is_shared = true;
  if (!tensor.device().is_cpu()) storage.value = ledger.storages.unique();
  ledger.uses_left.fetch_sub(1, std::memory_order_relaxed);
  StorageValues::use(storage.number, UseRole::kEscaped, extent_of(*impl), 0, storage.value,
                     core.ticks());
}

}  // namespace
}  // namespace stepscope
