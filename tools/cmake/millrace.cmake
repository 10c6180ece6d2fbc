# The functions that make a folder a target. See README.md in this folder.

include_guard(GLOBAL)

set(MILLRACE_SANITIZE "" CACHE STRING "Comma-separated list for -fsanitize=, empty for none")

add_library(millrace_options INTERFACE)
target_compile_features(millrace_options INTERFACE cxx_std_20)
target_compile_options(millrace_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror -fno-omit-frame-pointer)
if((CMAKE_UNITY_BUILD OR MILLRACE_SANITIZE) AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A class of one source file may have members of types that only this file knows. GCC warns if an #include brings the file.
  target_compile_options(millrace_options INTERFACE -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(millrace_options INTERFACE -Wno-restrict)  # false alarm on "text" + std::string: GCC bug 105329
endif()
if(MILLRACE_SANITIZE)
  # -O0 halves the time of a build, and so does -g1, which keeps line numbers for reports. Code that tests run for minutes is optimised a little.
  target_compile_options(millrace_options INTERFACE -fsanitize=${MILLRACE_SANITIZE} -g1
                         $<IF:$<BOOL:$<TARGET_PROPERTY:MILLRACE_COMPUTES>>,-O1,-O0>)
  target_link_options(millrace_options INTERFACE -fsanitize=${MILLRACE_SANITIZE})
  if(MILLRACE_SANITIZE MATCHES "undefined")
    target_compile_options(millrace_options INTERFACE -fno-sanitize-recover=undefined)
  endif()
  if(MILLRACE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(millrace_options INTERFACE -Wno-tsan)  # Asio's fences
  endif()
endif()
if(MILLRACE_FUZZ)
  # Everything is instrumented for coverage; only the fuzz targets are linked with libFuzzer's main.
  target_compile_options(millrace_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(MILLRACE_CCACHE ccache)
if(MILLRACE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${MILLRACE_CCACHE})
endif()

# Finds a package. If it is missing, the error names the Debian package that contains it.
function(millrace_missing what package)
  message(FATAL_ERROR "${what} was not found. Install it with 'tools/setup' (Debian package ${package}).")
endfunction()

# millrace_module(SOURCES a.cpp … HEADERS a.hpp … USES other_module … PUBLIC lib … PRIVATE lib …)
#
# Makes the current folder a target named after its path: runtime/base -> millrace_runtime_base.
# The folder's headers are visible as "runtime/base/x.hpp", and only to targets that name the module in
# USES: each module's include root holds a link to its own folder and nothing else, so an include that
# goes up (or sideways) without being declared does not compile. A cycle is refused by CMake itself.
function(millrace_module)
  cmake_parse_arguments(M "" "" "SOURCES;HEADERS;USES;PUBLIC;PRIVATE" ${ARGN})
  if(M_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "millrace_module: unknown arguments: ${M_UNPARSED_ARGUMENTS}")
  endif()
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" name ${folder})
  set(target millrace_${name})

  set(root ${CMAKE_BINARY_DIR}/include/${name})
  get_filename_component(parent ${root}/${folder} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${folder} SYMBOLIC)

  set(uses ${M_USES})
  list(TRANSFORM uses PREPEND millrace_)
  if(M_SOURCES)
    add_library(${target} STATIC ${M_SOURCES} ${M_HEADERS})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${target} PUBLIC ${root})
    target_link_libraries(${target} PUBLIC ${uses} ${M_PUBLIC} PRIVATE millrace_options ${M_PRIVATE})
    if(name MATCHES "^(kernels_.*|compiler_explore)$")
      set_target_properties(${target} PROPERTIES MILLRACE_COMPUTES ON)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${root})
    target_link_libraries(${target} INTERFACE ${uses} ${M_PUBLIC})
  endif()

  # `millrace_check_headers` compiles each public header alone, from one generated file per header.
  set(checks "")
  foreach(header IN LISTS M_HEADERS)
    string(MAKE_C_IDENTIFIER ${folder}/${header} id)
    set(check ${CMAKE_BINARY_DIR}/header_checks/${id}.cpp)
    file(CONFIGURE OUTPUT ${check} CONTENT "#include \"${folder}/${header}\"\n")
    list(APPEND checks ${check})
  endforeach()
  if(checks)
    add_library(${target}_headers OBJECT EXCLUDE_FROM_ALL ${checks})
    target_link_libraries(${target}_headers PRIVATE ${target} millrace_options)
    set_target_properties(${target}_headers PROPERTIES UNITY_BUILD OFF)  # or a header could borrow the includes of another
    add_dependencies(millrace_check_headers ${target}_headers)
  endif()
endfunction()

add_custom_target(millrace_check_headers)
add_custom_target(millrace_unit_tests)

# Sets the compile options of all test code. Test code computes little, and compiles in half the time without optimisation. The precompiled
# header is for code that is not position-independent.
function(millrace_compile_as_test name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  if(TARGET millrace_tests_pch)
    target_precompile_headers(${name} REUSE_FROM millrace_tests_pch)
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${MILLRACE_UNITY_TESTS} UNITY_BUILD_BATCH_SIZE 6 POSITION_INDEPENDENT_CODE OFF)
endfunction()

# millrace_test_helpers(name SOURCES … USES … [LIBS …]): code that several tests of a folder share, compiled once.
function(millrace_test_helpers name)
  cmake_parse_arguments(T "" "" "SOURCES;USES;LIBS" ${ARGN})
  set(uses ${T_USES})
  list(TRANSFORM uses PREPEND millrace_)
  add_library(${name} STATIC ${T_SOURCES})
  target_link_libraries(${name} PUBLIC millrace_options ${uses} millrace_tests_paths ${T_LIBS} GTest::gtest)
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  millrace_compile_as_test(${name})
endfunction()

# millrace_test(name SOURCES … USES … [LABELS unit] [LIBS …] [DEFINES …] [PROGRAM program]): GoogleTest tests that ctest runs as one entry.
#
# Without PROGRAM, the tests are a program of their own. With PROGRAM, they are a part of that program: a few large programs compile and
# link in half the time of many small ones. tests/<name> in the build folder is then a link to the program. Started by this name, the
# program runs only the tests of SOURCES (tests/support/entries.hpp).
function(millrace_test name)
  cmake_parse_arguments(T "" "TIMEOUT;PROGRAM" "SOURCES;USES;LABELS;LIBS;DEFINES" ${ARGN})
  set(uses ${T_USES})
  list(TRANSFORM uses PREPEND millrace_)
  if(T_PROGRAM)
    set(program ${T_PROGRAM})
    millrace_add_entry(${program} ${name} ${T_SOURCES})
  else()
    set(program ${name})
    add_executable(${program})
    millrace_set_up_test_program(${program})
    target_link_libraries(${program} PRIVATE GTest::gtest_main)
  endif()
  target_sources(${program} PRIVATE ${T_SOURCES})
  target_link_libraries(${program} PRIVATE ${uses} ${T_LIBS})
  target_compile_definitions(${program} PRIVATE ${T_DEFINES})
  if(name MATCHES "^test_(kernels_.*|compiler_(explore|replicas|requantise))$")
    set_target_properties(${program} PROPERTIES MILLRACE_COMPUTES ON)
  endif()
  add_test(NAME ${name} COMMAND ${CMAKE_BINARY_DIR}/tests/${name})
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  if("unit" IN_LIST T_LABELS)
    add_dependencies(millrace_unit_tests ${name})
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "${MILLRACE_TEST_ENVIRONMENT}")
endfunction()

# Adds an entry to a test program: a link to the program, and a target that builds the program. Creates the program for its first entry.
function(millrace_add_entry program entry)
  if(NOT TARGET ${program})
    set(main ${CMAKE_CURRENT_BINARY_DIR}/${program}_main.cpp)
    file(GENERATE OUTPUT ${main} CONTENT "#include \"tests/support/entries.hpp\"

int main(int count, char** arguments) {
  static constexpr millrace::tests::EntryFile kFiles[] = {
$<JOIN:$<TARGET_PROPERTY:${program},MILLRACE_ENTRY_FILES>,\n>
  };
  return millrace::tests::run_entry(count, arguments, kFiles);
}
")
    add_executable(${program} ${main})
    millrace_set_up_test_program(${program})
    target_link_libraries(${program} PRIVATE millrace_test_entries)
  endif()
  foreach(source IN LISTS ARGN)
    file(RELATIVE_PATH file ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set_property(TARGET ${program} APPEND PROPERTY MILLRACE_ENTRY_FILES "    {\"${entry}\", \"${file}\"},")
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  file(CREATE_LINK ${program} ${CMAKE_BINARY_DIR}/tests/${entry} SYMBOLIC)
  add_custom_target(${entry} DEPENDS ${program})
endfunction()

function(millrace_set_up_test_program program)
  target_link_libraries(${program} PRIVATE millrace_options millrace_tests_paths GTest::gtest)
  millrace_compile_as_test(${program})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()
