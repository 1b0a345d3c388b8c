// A library with nothing in it: see CMakeLists.txt.
