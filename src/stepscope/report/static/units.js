// Made by javascript() in units.py.

export const UNITS = {
  "text": {"name": "text", "one": "", "scales": [], "is_whole": false},
  "number": {"name": "number", "one": "", "scales": [], "is_whole": false},
  "ratio": {"name": "ratio", "one": "", "scales": [], "is_whole": false},
  "percent": {"name": "percent", "one": "fraction", "scales": [], "is_whole": false},
  "scaled": {"name": "scaled", "one": "", "scales": [[1000000000000000.0, "P"], [1000000000000.0, "T"], [1000000000.0, "G"], [1000000.0, "M"], [1000.0, "k"], [1, ""]], "is_whole": false},
  "time": {"name": "time", "one": "ns", "scales": [[1000000000.0, "s"], [1000000.0, "ms"], [1000.0, "µs"], [1, "ns"]], "is_whole": true},
  "bytes": {"name": "bytes", "one": "bytes", "scales": [[1099511627776, "TiB"], [1073741824, "GiB"], [1048576, "MiB"], [1024, "KiB"], [1, "B"]], "is_whole": true},
  "bandwidth": {"name": "bandwidth", "one": "bytes/s", "scales": [[1099511627776, "TiB/s"], [1073741824, "GiB/s"], [1048576, "MiB/s"], [1024, "KiB/s"], [1, "B/s"]], "is_whole": true},
  "flops": {"name": "flops", "one": "", "scales": [[1000000000000000.0, "PFLOP"], [1000000000000.0, "TFLOP"], [1000000000.0, "GFLOP"], [1000000.0, "MFLOP"], [1000.0, "kFLOP"], [1, "FLOP"]], "is_whole": false},
  "flops/s": {"name": "flops/s", "one": "", "scales": [[1000000000000000.0, "PFLOP/s"], [1000000000000.0, "TFLOP/s"], [1000000000.0, "GFLOP/s"], [1000000.0, "MFLOP/s"], [1000.0, "kFLOP/s"], [1, "FLOP/s"]], "is_whole": false},
  "bytes/s": {"name": "bytes/s", "one": "", "scales": [[1000000000000000.0, "PB/s"], [1000000000000.0, "TB/s"], [1000000000.0, "GB/s"], [1000000.0, "MB/s"], [1000.0, "kB/s"], [1, "B/s"]], "is_whole": false},
  "W": {"name": "W", "one": "W", "scales": [[1, "W"]], "is_whole": true},
  "J": {"name": "J", "one": "J", "scales": [[1000000.0, "MJ"], [1000.0, "kJ"], [1, "J"], [0.001, "mJ"]], "is_whole": false},
  "MHz": {"name": "MHz", "one": "MHz", "scales": [[1, "MHz"]], "is_whole": true},
  "\u00b0C": {"name": "°C", "one": "°C", "scales": [[1, "°C"]], "is_whole": true},
};
