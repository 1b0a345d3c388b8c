// The Chrome reader as Python sees it: text in, NumPy columns out.
#include "json/chrome_reader.h"

#include <nanobind/stl/string_view.h>

#include <span>
#include <string>
#include <utility>

#include "python/columns.h"
#include "python/event_columns.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

using json::ChromeColumns;
using json::ChromeReader;

constexpr std::pair<json::Oddity, const char*> kChromeOddities[] = {
    {json::Oddity::kNoDuration, "slices without a duration"},
    {json::Oddity::kNegativeDuration, "slices with a negative duration"},
    {json::Oddity::kNoTime, "events without a time"},
    {json::Oddity::kTimeOutOfRange, "times out of range"},
    {json::Oddity::kOpenBegin, "begins without an end"},
    {json::Oddity::kStrayEnd, "ends without a begin"},
    {json::Oddity::kNotAnEvent, "entries that are no events"},
    {json::Oddity::kMalformedEvent, "malformed events skipped"},
    {json::Oddity::kMalformedMetadata, "malformed metadata skipped"},
    {json::Oddity::kTextAfterEnd, "text after the end"},
};

nb::dict to_dict(ChromeColumns&& columns) {
  nb::dict out;
  out["slices"] = to_slices(std::move(columns.events.slices), columns.keys);
  out["marks"] = to_marks(std::move(columns.events.marks), columns.keys);
  nb::list tracks;
  for (const auto& track : columns.tracks) {
    tracks.append(nb::make_tuple(to_str(track.pid), to_str(track.tid)));
  }
  out["tracks"] = tracks;
  nb::list notes;
  for (const auto& note : columns.notes) {
    notes.append(nb::make_tuple(to_str(note.what), to_str(note.track.pid), to_str(note.track.tid),
                                to_str(note.text), note.number));
  }
  out["notes"] = notes;
  nb::list metadata;
  for (const auto& [key, text] : columns.metadata) {
    metadata.append(nb::make_tuple(to_str(key), to_str(text)));
  }
  out["metadata"] = metadata;
  out["strings"] = to_strings(columns.strings);
  out["anomalies"] = to_anomalies(columns.oddities, kChromeOddities);
  out["events"] = columns.event_count;
  out["bytes"] = columns.bytes;
  out["broken_at"] = columns.is_broken ? nb::cast(columns.broken_at) : nb::none();
  out["is_json"] = columns.is_json;
  out["has_events"] = columns.has_events;
  out["ends_early"] = columns.ends_early;
  return out;
}

void feed_text(ChromeReader& reader, const nb::bytes& chunk) {
  const std::string_view text(chunk.c_str(), chunk.size());
  nb::gil_scoped_release release;
  reader.feed(text);
}

nb::dict finish_trace(ChromeReader& reader) {
  ChromeColumns columns;
  {
    nb::gil_scoped_release release;
    columns = reader.finish();
  }
  return to_dict(std::move(columns));
}

// The first of some strings that is no fragment of JSON; -1 when all are.
int64_t first_bad_fragment(const nb::bytes& blob, const ColumnView<int64_t>& offsets,
                           const ColumnView<uint32_t>& ids) {
  const std::string_view texts(blob.c_str(), blob.size());
  const std::span<const int64_t> starts = as_span(offsets);
  const std::span<const uint32_t> wanted = as_span(ids);
  nb::gil_scoped_release release;
  std::string room;
  for (const uint32_t id : wanted) {
    const auto start = static_cast<size_t>(starts[id]);
    const auto size = static_cast<size_t>(starts[id + 1]) - start;
    if (!json::is_fragment(texts.substr(start, size), room)) return id;
  }
  return -1;
}

}  // namespace

void bind_chrome_reader(nb::module_& m) {
  nb::class_<ChromeReader>(m, "ChromeReader")
      .def(nb::init<>())
      .def("feed", &feed_text, nb::arg("chunk"))
      .def("finish", &finish_trace)
      .def_prop_ro("event_count", &ChromeReader::event_count)
      .def_prop_ro("pending_bytes", &ChromeReader::pending_bytes)
      .def_prop_ro("in_events", &ChromeReader::in_events);
  m.def("first_bad_fragment", &first_bad_fragment, nb::arg("blob"), nb::arg("offsets"),
        nb::arg("ids"));
}

}  // namespace stepscope
