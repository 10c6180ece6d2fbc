# The libraries that Millrace is built with, each with the Debian package that contains it. Nothing is downloaded.

include_guard(GLOBAL)

find_package(Threads REQUIRED)

macro(millrace_require package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    millrace_missing(${package} ${debian})
  endif()
endmacro()

millrace_require(Boost "libboost1.81-dev libboost-json1.81-dev libboost-url1.81-dev" 1.81 CONFIG COMPONENTS headers json url)
millrace_require(Protobuf "libprotobuf-dev protobuf-compiler" 3.21)
millrace_require(ONNX libonnx-dev)
millrace_require(yaml-cpp libyaml-cpp-dev)
millrace_require(CLI11 libcli11-dev)
millrace_require(spdlog libspdlog-dev)
millrace_require(OpenSSL libssl-dev)
millrace_require(ZLIB zlib1g-dev)
millrace_require(prometheus-cpp prometheus-cpp-dev)
millrace_require(MPI "libopenmpi-dev openmpi-bin" COMPONENTS CXX)
if(MILLRACE_TESTS)
  millrace_require(GTest libgtest-dev)
endif()
if(MILLRACE_BENCH)
  millrace_require(benchmark libbenchmark-dev)
endif()

# XRT has no CMake package and its .pc file is broken, so search for its files directly. The setup.sh of an XRT
# installation sets XILINX_XRT to the installation's folder.
find_library(MILLRACE_XRT_COREUTIL xrt_coreutil HINTS ENV XILINX_XRT PATH_SUFFIXES lib)
find_path(MILLRACE_XRT_INCLUDE xrt/xrt_device.h HINTS ENV XILINX_XRT PATH_SUFFIXES include xrt)
find_library(MILLRACE_UUID uuid)
if(NOT MILLRACE_XRT_COREUTIL OR NOT MILLRACE_XRT_INCLUDE)
  millrace_missing(XRT libxrt-dev)
endif()
if(NOT MILLRACE_UUID)
  millrace_missing(libuuid uuid-dev)
endif()
add_library(xrt_coreutil INTERFACE IMPORTED)
set_target_properties(xrt_coreutil PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${MILLRACE_XRT_INCLUDE}"
  INTERFACE_LINK_LIBRARIES "${MILLRACE_XRT_COREUTIL};${MILLRACE_UUID}")
add_library(XRT::coreutil ALIAS xrt_coreutil)

# The emulator of cards depends on private interfaces of XRT 2.13 (runtime/emulator/shim/xrt_core.cpp). With another
# version, Millrace is built without it and uses real cards only.
set(MILLRACE_XRT_VERSION "unknown")
foreach(xrt_version_file version.h xrt/detail/version.h)
  if(EXISTS ${MILLRACE_XRT_INCLUDE}/${xrt_version_file})
    file(STRINGS ${MILLRACE_XRT_INCLUDE}/${xrt_version_file} xrt_version_line REGEX "xrt_build_version\\[\\]")
    if(xrt_version_line MATCHES "\"([0-9]+\\.[0-9]+)\\.")
      set(MILLRACE_XRT_VERSION ${CMAKE_MATCH_1})
    endif()
  endif()
endforeach()
find_library(MILLRACE_XRT_SWEMU libxrt_swemu.a)
set(MILLRACE_EMULATED_CARDS OFF)
if(NOT MILLRACE_XRT_VERSION STREQUAL "2.13")
  message(WARNING "Emulated cards are left out: they need XRT 2.13, but ${MILLRACE_XRT_INCLUDE} has version ${MILLRACE_XRT_VERSION}. "
    "Real cards can be used. Tests and commands that need emulated cards fail. For emulated cards, install Debian 12's libxrt-dev and "
    "unset XILINX_XRT.")
elseif(NOT MILLRACE_XRT_SWEMU)
  millrace_missing(libxrt_swemu.a libxrt-dev)
else()
  set(MILLRACE_EMULATED_CARDS ON)
endif()

find_path(MILLRACE_STB_INCLUDE stb/stb_image.h)
if(NOT MILLRACE_STB_INCLUDE)
  millrace_missing(stb_image libstb-dev)
endif()

# Of ONNX, Millrace only uses the protobuf types.
add_library(millrace_onnx_proto INTERFACE)
target_link_libraries(millrace_onnx_proto INTERFACE onnx_proto protobuf::libprotobuf)
target_compile_definitions(millrace_onnx_proto INTERFACE ONNX_NAMESPACE=onnx ONNX_ML=1)
