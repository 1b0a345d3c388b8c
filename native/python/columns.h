// Native vectors as NumPy arrays, without a copy.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

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

template <typename T>
std::span<const T> as_span(const ColumnView<T>& view) {
  return {view.data(), view.shape(0)};
}

}  // namespace stepscope
