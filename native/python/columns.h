// Native vectors as NumPy arrays, without a copy, and tables of them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/byte_buffer.h"

namespace stepscope {

template <typename T>
using Column = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;

template <typename T>
using ColumnView =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <typename T>
Column<T> to_column(std::vector<T>&& values) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const size_t size = owned->size();
  nanobind::capsule owner(owned.release(),
                          [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Column<T>(data, {size}, owner);
}

inline Column<uint8_t> to_column(ByteBuffer&& bytes) {
  const size_t size = bytes.size();
  char* data = bytes.release().release();
  nanobind::capsule owner(data, [](void* p) noexcept { delete[] static_cast<char*>(p); });
  return Column<uint8_t>(reinterpret_cast<uint8_t*>(data), {size}, owner);
}

template <typename T>
constexpr const char* dtype_name() {
  if constexpr (std::is_same_v<T, int64_t>) return "int64";
  if constexpr (std::is_same_v<T, int32_t>) return "int32";
  if constexpr (std::is_same_v<T, uint32_t>) return "uint32";
  if constexpr (std::is_same_v<T, uint8_t>) return "uint8";
}

inline constexpr size_t kManyRows = 10'000;

// Columns over rows, each with its name and type, so that the reader can check both.
template <typename Row>
class Table {
 public:
  explicit Table(const std::vector<Row>& rows) : rows_(rows) {}

  template <typename T, typename Field>
  void column(const char* name, const Field& field) {
    std::vector<T> values;
    {
      // The program goes on meanwhile; asking for the GIL again is not worth it for a few rows.
      std::optional<nanobind::gil_scoped_release> release;
      if (rows_.size() > kManyRows) release.emplace();
      values.reserve(rows_.size());
      for (const Row& row : rows_) values.push_back(static_cast<T>(field(record_of(row))));
    }
    add<T>(name, nanobind::cast(to_column(std::move(values))));
  }

  // A column that most recordings do not need: None when all of it is 0.
  template <typename T, typename Field>
  void column_if_any(const char* name, const Field& field) {
    for (const Row& row : rows_) {
      if (field(record_of(row))) return column<T>(name, field);
    }
    add<T>(name, nanobind::none());
  }

  nanobind::dict columns;
  nanobind::list types;  // (name, dtype), in order

 private:
  static const auto& record_of(const Row& row) {
    if constexpr (std::is_pointer_v<Row>) {
      return *row;
    } else {
      return row;
    }
  }

  template <typename T>
  void add(const char* name, nanobind::object values) {
    columns[name] = std::move(values);
    types.append(nanobind::make_tuple(name, dtype_name<T>()));
  }

  const std::vector<Row>& rows_;
};

template <typename T>
std::span<const T> as_span(const ColumnView<T>& view) {
  return {view.data(), view.shape(0)};
}

template <typename T>
std::span<const T> as_span_or_empty(const std::optional<ColumnView<T>>& view) {
  return view ? as_span(*view) : std::span<const T>{};
}

// The offsets of a table of texts. Throws std::invalid_argument when they are not all in it.
inline std::span<const int64_t> text_offsets(const nanobind::bytes& blob,
                                             const ColumnView<int64_t>& offsets) {
  const auto span = as_span(offsets);
  if (span.empty() || span.front() < 0 || span.back() > static_cast<int64_t>(blob.size()) ||
      !std::is_sorted(span.begin(), span.end())) {
    throw std::invalid_argument("the offsets do not fit the string table");
  }
  return span;
}

}  // namespace stepscope
