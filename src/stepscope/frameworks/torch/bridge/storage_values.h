// Numbers the data that storages hold, so that equal numbers mean that the data is equal.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "bridge_state.h"

namespace stepscope {
namespace {

// As UseRole in stepscope/trace/kinds.py.
enum class UseRole : uint8_t {
  kRead = 0,
  kMade = 1,
  kChanged = 2,
  kReleased = 3,
  kEscaped = 4,
  kReadRow = 5
};

inline uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

inline uint64_t hash_of(const void* bytes, size_t size, uint64_t hash = 0x51ED270B) {
  const char* at = static_cast<const char*>(bytes);
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = mixed(hash, word);
  }
  uint64_t rest = size;
  std::memcpy(&rest, at, size);
  return mixed(hash, rest);
}

constexpr size_t kWholeBytes = 2048;  // of small storages the data itself is hashed

// A sample of the data in the host's memory: code that torch does not call may have changed it.
inline uint64_t sample_of(const c10::StorageImpl& storage) {
  constexpr size_t kSamples = 32;
  const size_t bytes = storage.nbytes();
  const auto* const data = static_cast<const char*>(storage.data());
  if (!data || !storage.device().is_cpu()) return 0;
  if (bytes <= kWholeBytes) return hash_of(data, bytes);
  uint64_t hash = bytes;
  for (size_t i = 0; i < kSamples; ++i) {
    hash = hash_of(data + i * ((bytes - 8) / (kSamples - 1)), 8, hash);
  }
  return hash;
}

// How much of its storage a tensor refers to.
struct Extent {
  uint64_t bytes = 0;
  uint32_t rows = 1;  // the first of its sizes
};

inline Extent extent_of(const c10::TensorImpl& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  Extent extent;
  if (!sizes.empty()) extent.rows = static_cast<uint32_t>(std::min<int64_t>(sizes[0], UINT32_MAX));
  if (!tensor.numel()) return extent;
  extent.bytes = tensor.itemsize();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i]) extent.bytes *= static_cast<uint64_t>(sizes[i]);
  }
  return extent;
}

// Whether the tensor is plain: its sizes are numbers, and its data is in a storage.
inline bool is_plain(const at::Tensor& tensor) {
  const auto* const impl = tensor.unsafeGetTensorImpl();
  return tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_nested() &&
         !impl->is_python_dispatch() && !impl->has_symbolic_sizes_strides() &&
         impl->has_storage() && impl->unsafe_storage().unsafeGetStorageImpl() &&
         !impl->device().is_meta();
}

struct StorageValue {
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

  Weak storage;  // keeps the address from becoming another storage's, but not the data
  uint64_t number = 0;
  uint64_t value = 0;
  uint32_t version = 0;   // the highest seen of its tensors
  bool is_shared = true;  // others than torch's operators may change the data
};

// The values of all storages that operators have used. Callers serialise their calls.
class StorageValues {
 public:
  StorageValue& of(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    auto* const impl = storage.unsafeGetStorageImpl();
    auto entry = values_.find(impl);
    if (entry != values_.end() && entry->second.storage.expired()) {
      released(entry->second);
      values_.erase(entry);
      entry = values_.end();
    }
    if (entry == values_.end()) {
      if (values_.size() >= sweep_at_) sweep();
      StorageValue value{storage.getWeakStorageImpl()};
      value.number = ++storages_;
      value.value = unique();
      value.version = version_of(tensor);
      entry = values_.emplace(impl, std::move(value)).first;
    }
    return entry->second;
  }

  // The number of the tensor's data as it is now.
  uint64_t value_of(const at::Tensor& tensor, StorageValue& storage) {
    const auto* const impl = tensor.unsafeGetTensorImpl();
    const uint32_t version = version_of(tensor);
    if (version > storage.version) {  // changed by something that was not recorded
      storage.version = version;
      storage.value = unique();
    }
    uint64_t hash = storage.value;
    if (storage.is_shared) {
      const c10::StorageImpl& data = *impl->unsafe_storage().unsafeGetStorageImpl();
      const uint64_t sample = sample_of(data);
      // Numbers that Python puts into a tensor are often the same in different storages.
      const bool is_whole = sample && data.nbytes() <= kWholeBytes;
      hash = is_whole ? sample : mixed(hash, sample);
    }
    hash = mixed(hash, static_cast<uint64_t>(impl->storage_offset()));
    hash = mixed(hash, static_cast<uint64_t>(tensor.scalar_type()));
    const auto sizes = impl->sizes();
    const auto strides = impl->strides();
    hash = hash_of(sizes.data(), sizes.size() * sizeof(int64_t), hash);
    return hash_of(strides.data(), strides.size() * sizeof(int64_t), hash);
  }

  // An operator gave the storage this value.
  void set(const at::Tensor& tensor, StorageValue& storage, uint64_t value) {
    storage.value = value;
    storage.version = std::max(storage.version, version_of(tensor));
  }

  // A value that nothing else has.
  uint64_t unique() { return mixed(0xC0FFEE, ++uniques_); }

  // Note which storages are gone.
  void sweep() {
    for (auto entry = values_.begin(); entry != values_.end();) {
      if (entry->second.storage.expired()) {
        released(entry->second);
        entry = values_.erase(entry);
      } else {
        ++entry;
      }
    }
    sweep_at_ = std::max(size_t{1024}, 2 * values_.size());
  }

  void clear() { values_.clear(); }

  static void use(uint64_t storage, UseRole role, Extent extent, uint64_t position, uint64_t value,
                  uint64_t ticks) {
    TensorUse use{};
    use.value = value;
    use.storage = storage;
    use.bytes = extent.bytes;
    use.position = static_cast<uint16_t>(std::min<uint64_t>(position, UINT16_MAX));
    const bool is_row = role == UseRole::kRead && extent.rows == 1;
    use.role = static_cast<uint8_t>(is_row ? UseRole::kReadRow : role);
    core.tensor_used(&use, ticks);
  }

 private:
  static uint32_t version_of(const at::Tensor& tensor) {
    const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
    return counter.enabled() ? counter.current_version() : 0;
  }

  static void released(const StorageValue& storage) {
    use(storage.number, UseRole::kReleased, {}, 0, storage.value, core.ticks());
  }

  std::unordered_map<const c10::StorageImpl*, StorageValue> values_;
  size_t sweep_at_ = 1024;
  uint64_t storages_ = 0;
  uint64_t uniques_ = 0;
};

}  // namespace
}  // namespace stepscope
