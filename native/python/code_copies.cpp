#include "python/code_copies.h"

#include <array>
#include <atomic>
#include <utility>

#include "json/utf8.h"
#include "python/sampler_layout.h"
#include "sampler/sampled_code.h"

namespace stepscope {
namespace {

constexpr int kMostBytes = 1 << 24;  // of a text, a table, a function: anything longer is no such

// ---- what was destroyed

constexpr size_t kSlots = size_t{1} << 14;
std::array<std::atomic<uint32_t>, kSlots> destroyed_at;
std::atomic<uint32_t> destroyed_in_all;

// Guarded by the GIL. A forked child has its parent's copies, and goes on counting for them.
int copy_users = 0;
destructor plain_destructor = nullptr;

std::atomic<uint32_t>& slot_of(Address code) {
  return destroyed_at[(code >> 4) * 0x9E3779B97F4A7C15ULL >> 50];
}
static_assert(kSlots == size_t{1} << (64 - 50));

void counting_destructor(PyObject* code) {
  slot_of(reinterpret_cast<Address>(code)).fetch_add(1, std::memory_order_release);
  destroyed_in_all.fetch_add(1, std::memory_order_release);
  plain_destructor(code);
}

void use_hook() {
  if (copy_users++ > 0 || PyCode_Type.tp_dealloc == &counting_destructor) return;
  plain_destructor = PyCode_Type.tp_dealloc;
  PyCode_Type.tp_dealloc = &counting_destructor;
}

void leave_hook() {
  if (copy_users > 0 && --copy_users == 0 && PyCode_Type.tp_dealloc == &counting_destructor) {
    PyCode_Type.tp_dealloc = plain_destructor;
  }
}

uint32_t destroyed_of(Address code) { return slot_of(code).load(std::memory_order_acquire); }

// ---- texts

std::string as_utf8(const std::vector<uint8_t>& data, size_t kind) {
  std::string text;
  text.reserve(data.size());
  for (size_t i = 0; i + kind <= data.size(); i += kind) {
    uint32_t point = 0;
    __builtin_memcpy(&point, &data[i], kind);
    const bool is_half_a_pair = point >= 0xD800 && point < 0xE000;  // and has no UTF-8 form
    json::append_utf8(text, is_half_a_pair ? '?' : point);
  }
  return text;
}

bool is_a(const void* object, const PyTypeObject& type) {
  return field<Address>(object, offsetof(PyObject, ob_type)) == reinterpret_cast<Address>(&type);
}

}  // namespace

CodeCopies::CodeCopies(const MemoryReader& memory) : memory_(memory) { use_hook(); }

CodeCopies::~CodeCopies() { leave_hook(); }

uint32_t CodeCopies::destroyed() { return destroyed_in_all.load(std::memory_order_acquire); }

std::optional<uint32_t> CodeCopies::number_of(Address code) {
  const uint32_t before = destroyed_of(code);
  Recent& recent = recent_[(code >> 4) % recent_.size()];
  if (recent.code == code && recent.copy.destroyed == before) return recent.copy.number;
  const auto entry = numbered_.find(code);
  if (entry != numbered_.end() && entry->second.destroyed == before) {
    recent = {code, entry->second};
    return entry->second.number;
  }
  std::optional<CodeCopy> made = copy(code);
  if (!made || destroyed_of(code) != before) return std::nullopt;
  recent = {code, {enter(std::move(*made)), before}};
  numbered_[code] = recent.copy;
  return recent.copy.number;
}

// Functions that are made anew again and again are one.
uint32_t CodeCopies::enter(CodeCopy&& copy) {
  std::string content = copy.file;
  content.append(1, '\0').append(copy.function).append(1, '\0');
  content.append(std::to_string(copy.first_line)).append(1, '\0');
  content.append(std::to_string(copy.bytes)).append(1, '\0');
  content.append(copy.line_table.begin(), copy.line_table.end());
  const size_t bytes = content.size();
  const auto [entry, is_new] =
      by_content_.try_emplace(std::move(content), static_cast<uint32_t>(copies_.size()));
  if (is_new) {
    bytes_ += 2 * bytes + sizeof(CodeCopy) + copy.operations.size() + 128;
    copies_.push_back(std::move(copy));
  }
  return entry->second;
}

std::optional<CodeCopy> CodeCopies::copy(Address code) const {
  std::vector<uint8_t> head(kLayout.code_size);
  if (!memory_.read(code, head.data(), head.size()) || !is_a(head.data(), PyCode_Type)) {
    return std::nullopt;
  }
  CodeCopy made;
  const auto units = field<Py_ssize_t>(head.data(), offsetof(PyVarObject, ob_size));
  if (units <= 0 || units > kMostBytes) return std::nullopt;
  made.bytes = static_cast<int>(units) * kUnitBytes;
  made.first_line = field<int>(head.data(), kLayout.code_first_line);
  made.first_traceable = field<int>(head.data(), kLayout.code_first_traceable) * kUnitBytes;
  made.frame_bytes = frame_bytes_of(head.data());
  const auto file = field<Address>(head.data(), kLayout.code_file);
  const auto function = field<Address>(head.data(), kLayout.code_function);
  const auto lines = field<Address>(head.data(), kLayout.code_line_table);
  if (file && function) {  // the interpreter's own have neither
    const auto file_text = text(file);
    const auto function_text = text(function);
    if (!file_text || !function_text) return std::nullopt;
    made.file = *file_text;
    made.function = *function_text;
  }
  PyBytesObject table;
  constexpr size_t kTableHead = offsetof(PyBytesObject, ob_sval);
  if (lines) {
    if (!memory_.read(lines, &table, kTableHead) || !is_a(&table, PyBytes_Type)) {
      return std::nullopt;
    }
    const Py_ssize_t size = Py_SIZE(&table);
    if (size < 0 || size > kMostBytes) return std::nullopt;
    made.line_table.resize(static_cast<size_t>(size));
    if (!memory_.read(lines + kTableHead, made.line_table.data(), made.line_table.size())) {
      return std::nullopt;
    }
  }
  std::vector<uint8_t> instructions(static_cast<size_t>(made.bytes));
  if (!memory_.read(code + kLayout.code_size, instructions.data(), instructions.size())) {
    return std::nullopt;
  }
  made.operations.resize(instructions.size() / kUnitBytes);
  for (size_t i = 0; i < made.operations.size(); ++i) {
    made.operations[i] = instructions[i * kUnitBytes];
  }
  return made;
}

std::optional<std::string> CodeCopies::text(Address object) const {
  PyCompactUnicodeObject head;
  if (!memory_.read(object, &head._base, sizeof head._base) || !is_a(&head, PyUnicode_Type)) {
    return std::nullopt;
  }
  const auto& state = head._base.state;
  const size_t kind = state.kind;
  const Py_ssize_t length = head._base.length;
  if (!state.compact || kind == 0 || kind > 4 || length < 0 || length > kMostBytes) {
    return std::nullopt;
  }
  const size_t begin = state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject);
  std::vector<uint8_t> data(static_cast<size_t>(length) * kind);
  if (!data.empty() && !memory_.read(object + begin, data.data(), data.size())) {
    return std::nullopt;
  }
  return as_utf8(data, kind);
}

}  // namespace stepscope
