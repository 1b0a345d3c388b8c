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
using json::Oddity;

constexpr std::pair<Oddity, const char*> kOddityNames[] = {
    {Oddity::kNoDuration, "slices without a duration"},
    {Oddity::kNegativeDuration, "slices with a negative duration"},
    {Oddity::kNoTime, "events without a time"},
    {Oddity::kTimeOutOfRange, "times out of range"},
    {Oddity::kOpenBegin, "begins without an end"},
    {Oddity::kStrayEnd, "ends without a begin"},
    {Oddity::kNotAnEvent, "entries that are no events"},
    {Oddity::kMalformedEvent, "malformed events skipped"},
    {Oddity::kMalformedMetadata, "malformed metadata skipped"},
    {Oddity::kTextAfterEnd, "text after the end"},
};
static_assert(std::size(kOddityNames) == static_cast<size_t>(Oddity::kCount));

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
  const auto& blob = columns.strings.blob();
  out["strings"] = nb::make_tuple(nb::bytes(blob.data(), blob.size()),
                                  to_column(columns.strings.take_offsets()));
  nb::dict anomalies;
  for (const auto& [what, name] : kOddityNames) {
    const uint64_t count = columns.oddities[static_cast<size_t>(what)];
    if (count > 0) anomalies[name] = count;
  }
  out["anomalies"] = anomalies;
  out["events"] = columns.event_count;
  out["bytes"] = columns.bytes;
  out["broken_at"] = columns.is_broken ? nb::cast(columns.broken_at) : nb::none();
  out["is_json"] = columns.is_json;
  out["has_events"] = columns.has_events;
  out["ends_early"] = columns.ends_early;
  return out;
}

void feed(ChromeReader& reader, const nb::bytes& chunk) {
  const std::string_view text(chunk.c_str(), chunk.size());
  nb::gil_scoped_release release;
  reader.feed(text);
}

nb::dict finish(ChromeReader& reader) {
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
      .def("feed", &feed, nb::arg("chunk"))
      .def("finish", &finish)
      .def_prop_ro("event_count", &ChromeReader::event_count)
      .def_prop_ro("pending_bytes", &ChromeReader::pending_bytes)
      .def_prop_ro("in_events", &ChromeReader::in_events);
  m.def("first_bad_fragment", &first_bad_fragment, nb::arg("blob"), nb::arg("offsets"),
        nb::arg("ids"));
}

}  // namespace stepscope
