// Made by javascript() in units.py.

export const UNITS = {
  "text": {"one": "", "scales": [], "whole": false},
  "number": {"one": "", "scales": [], "whole": false},
  "percent": {"one": "fraction", "scales": [], "whole": false},
  "time": {"one": "ns", "scales": [[1000000000.0, "s"], [1000000.0, "ms"], [1000.0, "µs"], [1, "ns"]], "whole": true},
  "bytes": {"one": "bytes", "scales": [[1099511627776, "TiB"], [1073741824, "GiB"], [1048576, "MiB"], [1024, "KiB"], [1, "B"]], "whole": true},
  "flops": {"one": "", "scales": [[1000000000000000.0, "PFLOP"], [1000000000000.0, "TFLOP"], [1000000000.0, "GFLOP"], [1000000.0, "MFLOP"], [1000.0, "kFLOP"], [1, "FLOP"]], "whole": false},
  "flops/s": {"one": "", "scales": [[1000000000000000.0, "PFLOP/s"], [1000000000000.0, "TFLOP/s"], [1000000000.0, "GFLOP/s"], [1000000.0, "MFLOP/s"], [1000.0, "kFLOP/s"], [1, "FLOP/s"]], "whole": false},
  "bytes/s": {"one": "", "scales": [[1000000000000000.0, "PB/s"], [1000000000000.0, "TB/s"], [1000000000.0, "GB/s"], [1000000.0, "MB/s"], [1000.0, "kB/s"], [1, "B/s"]], "whole": false},
  "ratio": {"one": "", "scales": [], "whole": false},
  "bandwidth": {"one": "bytes/s", "scales": [[1099511627776, "TiB/s"], [1073741824, "GiB/s"], [1048576, "MiB/s"], [1024, "KiB/s"], [1, "B/s"]], "whole": false},
  "scaled": {"one": "", "scales": [[1000000000000000.0, "P"], [1000000000000.0, "T"], [1000000000.0, "G"], [1000000.0, "M"], [1000.0, "k"], [1, ""]], "whole": false},
  "W": {"one": "W", "scales": [[1, "W"]], "whole": true},
  "J": {"one": "J", "scales": [[1000000.0, "MJ"], [1000.0, "kJ"], [1, "J"], [0.001, "mJ"]], "whole": false},
  "MHz": {"one": "MHz", "scales": [[1, "MHz"]], "whole": true},
  "\u00b0C": {"one": "°C", "scales": [[1, "°C"]], "whole": true},
};
