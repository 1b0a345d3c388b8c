# Puts bridges to torch into the wheel, where tools/torch_headers.py has fetched what they are
# compiled with. They are the same for every Python, so they are built once, in a folder of their
# own, however many wheels are made.
set(STEPSCOPE_TORCH_HEADERS "${PROJECT_SOURCE_DIR}/build/torch-headers" CACHE PATH
    "Where tools/torch_headers.py has put the headers of torch's releases")
if(NOT EXISTS "${STEPSCOPE_TORCH_HEADERS}")
  message(STATUS "No bridges to torch: one is compiled where it is used")
  return()
endif()

set(bridges "${PROJECT_SOURCE_DIR}/build/bridges-${CMAKE_SYSTEM_PROCESSOR}")
if(NOT EXISTS "${bridges}/CMakeCache.txt")
  # Only once: another name of it would make CMake forget all that it is told here.
  set(compiler "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}")
endif()
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${bridges}" -G "${CMAKE_GENERATOR}"
          "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" ${compiler}
          "-DSTEPSCOPE_TORCH_HEADERS=${STEPSCOPE_TORCH_HEADERS}" -DCMAKE_BUILD_TYPE=Release
          "-DPython_EXECUTABLE=${Python_EXECUTABLE}"
  COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(bridges ALL COMMAND "${CMAKE_COMMAND}" --build "${bridges}" USES_TERMINAL)
install(DIRECTORY "${bridges}/" DESTINATION stepscope/frameworks/torch/bridge/prebuilt
        FILES_MATCHING REGEX "/[a-z_]+-[0-9.]+\\.so$"
        PATTERN CMakeFiles EXCLUDE PATTERN stubs EXCLUDE)
