// What code is called in a trace: "model.py(12): forward", "<built-in function len>".
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>
#include <string_view>
#include <vector>

namespace stepscope {

// All need the GIL, and leave an error that is set as it is.

// Which beginnings of file names say nothing, and in which folders our own code lies and Python's.
void set_paths(std::vector<std::string> prefixes, std::string own_folder,
               std::string library_folder);

// A user wants to see the program, not its profiler: our own functions are not shown, nor what they
// use of the standard library. What the library calls back is the program again.
bool is_hidden(PyCodeObject* code, bool caller_is_hidden);
bool is_hidden(std::string_view path, bool caller_is_hidden);

// Whether a forked child begins with the function: its callers are the parent's.
bool begins_child(std::string_view path, std::string_view function);

std::string file_of(PyCodeObject* code);
std::string function_of(PyCodeObject* code);

// Whether it is not the program's own: of an installed package, of Python, or ours.
bool is_library(PyCodeObject* code);

std::string place_name(PyCodeObject* code, int line, PyObject* function);
std::string place_name(std::string_view path, int line, std::string_view function);

// With the line that an instruction belongs to.
std::string place_name(PyCodeObject* code, int instruction);

// A function written in C, by its name and what it is bound to (null: a module, or nothing).
std::string builtin_name(const char* name, PyTypeObject* bound_to,
                         const PyObject* at_address = nullptr);

}  // namespace stepscope
