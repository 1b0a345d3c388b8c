// The lexical level of JSON: where a value ends, and whether its text is JSON as it stands.
//
// A position past the end of the text means "incomplete", nullptr "malformed". Nothing recurses.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace stepscope::json {

// Text must be followed by this many quotes: every loop stops at a quote, so that none has to
// compare with the end, and wide loads may reach beyond it.
inline constexpr size_t kPadding = 64;
// Deeper values are kept as a string of their text: no reader of JSON takes any depth.
inline constexpr size_t kMaxDepth = 256;

enum class Kind : uint8_t { kString, kScalar, kObject, kArray };

struct Value {
  std::string_view text;  // with its quotes or brackets
  Kind kind = Kind::kScalar;
  bool escaped = false;  // a string that must be decoded
  bool verbatim = true;  // valid, compact JSON as it stands; else see append_value
  bool too_deep = false;

  std::string_view inner() const { return text.substr(1, text.size() - 2); }
};

#if defined(__ARM_NEON) && !defined(__SSE2__)
// Four bits a byte: NEON has no movemask.
inline uint64_t nibble_mask(uint8x16_t hits) {
  return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(hits), 4)), 0);
}
#endif

// The first character that is not white space; control characters count as white space. Runs are
// short: eight bytes in a general register take less time than sixteen in a vector.
inline const char* skip_space(const char* p) {
  if (static_cast<unsigned char>(p[0]) > ' ') return p;
  if (static_cast<unsigned char>(p[1]) > ' ') return p + 1;
  if constexpr (std::endian::native == std::endian::little) {
    for (;; p += 8) {
      uint64_t text;
      std::memcpy(&text, p, sizeof text);
      // The top bit of each byte that is above a space.
      const uint64_t above =
          (((text & 0x7f7f7f7f7f7f7f7fU) + 0x5f5f5f5f5f5f5f5fU) | text) & 0x8080808080808080U;
      if (above != 0) return p + std::countr_zero(above) / 8;
    }
  }
  while (static_cast<unsigned char>(*p) <= ' ') ++p;
  return p;
}

// The first quote, backslash or control character at or after p.
inline const char* find_special(const char* p) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i control = _mm_set1_epi8(0x1f);
  for (;; p += 16) {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i hit =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(text, quote), _mm_cmpeq_epi8(text, backslash)),
                     _mm_cmpeq_epi8(_mm_min_epu8(text, control), text));
    const auto mask = static_cast<uint32_t>(_mm_movemask_epi8(hit));
    if (mask != 0) return p + std::countr_zero(mask);
  }
#elif defined(__ARM_NEON)
  for (;; p += 16) {
    const uint8x16_t text = vld1q_u8(reinterpret_cast<const uint8_t*>(p));
    const uint8x16_t hit =
        vorrq_u8(vorrq_u8(vceqq_u8(text, vdupq_n_u8('"')), vceqq_u8(text, vdupq_n_u8('\\'))),
                 vcltq_u8(text, vdupq_n_u8(' ')));
    const uint64_t mask = nibble_mask(hit);
    if (mask != 0) return p + (std::countr_zero(mask) >> 2);
  }
#else
  while (*p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= ' ') ++p;
  return p;
#endif
}

// The length of the escape at the front, its backslash included; 0 when it is none.
size_t escape_length(std::string_view text);

// Appends a control character as an escape.
void append_control(std::string& out, char c);

// Goes on where find_special met something else than the closing quote.
const char* scan_odd_string(const char* start, const char* p, const char* end, Value& out);

// p is at the opening quote.
inline const char* scan_string(const char* p, const char* end, Value& out) {
  const char* close = find_special(p + 1);
  if (*close != '"' || close >= end) return scan_odd_string(p, close, end, out);
  out.text = {p, static_cast<size_t>(close + 1 - p)};
  out.kind = Kind::kString;
  out.escaped = false;
  out.verbatim = true;
  out.too_deep = false;
  return close + 1;
}

// A key and its colon; returns where the value begins. p is where the key should be.
inline const char* scan_key(const char* p, const char* end, Value& out) {
  if (*p != '"') return nullptr;
  p = scan_string(p, end, out);
  if (p >= end) return end + 1;
  p = skip_space(p);
  if (p >= end) return end + 1;
  return *p == ':' ? skip_space(p + 1) : nullptr;
}

// Any value; p is at its first character. When malformed, out.text is what was understood.
const char* scan_value(const char* p, const char* end, Value& out);

// Whether text is pairs of a JSON object without its braces, as they may stand in any file.
// ``room`` is memory that is used again.
bool is_fragment(std::string_view text, std::string& room);

// Appends JSON that every parser takes but for NaN and Infinity: no raw control characters, no
// unknown escapes or words, no line breaks between tokens.
void append_value(std::string& out, const Value& value);

// Appends text as a JSON string, with its quotes.
void append_quoted(std::string& out, std::string_view text);

// Appends what a JSON string says, in UTF-8; half a surrogate pair becomes U+FFFD.
void append_decoded(std::string& out, std::string_view inner);

}  // namespace stepscope::json
