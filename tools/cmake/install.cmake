# The files that `cmake --install` copies into a prefix; tools/clients/cpp installs the C++ client itself. A prefix can be moved, because
# the programs find the shim relative to themselves and contain the catalogue, the hardware library and the console.

include_guard(GLOBAL)

install(TARGETS millrace millrace_card millrace_plugin_asker RUNTIME DESTINATION bin)
install(FILES runtime/plugins/millrace_plugin.h runtime/plugins/millrace_plugin.hpp DESTINATION include/millrace)
# Do not use CMAKE_INSTALL_LIBDIR: select_backend() looks in this folder, relative to the program.
if(MILLRACE_EMULATED_CARDS)
  install(TARGETS millrace_xrt_shim LIBRARY DESTINATION lib/millrace/xrt/lib NAMELINK_SKIP)
endif()

install(DIRECTORY configs/devices configs/clusters configs/monitoring DESTINATION share/millrace PATTERN alerts_test.yml EXCLUDE)
install(FILES configs/server.yaml DESTINATION share/millrace)
install(PROGRAMS configs/plugins/dense_plugin.py DESTINATION share/millrace/plugins)
install(DIRECTORY tools/clients/python DESTINATION share/millrace FILES_MATCHING PATTERN *.py PATTERN pyproject.toml PATTERN py.typed
        PATTERN __pycache__ EXCLUDE)
file(WRITE ${CMAKE_BINARY_DIR}/version.txt "${PROJECT_VERSION}\n")
install(FILES ${CMAKE_BINARY_DIR}/version.txt DESTINATION share/millrace/python)
install(FILES LICENSE DESTINATION share/doc/millrace)

# Install every folder's README at its place in the tree, because messages, --help and installed files refer to these places. Cluster and
# device files refer to the README of configs/ as the one in their parent folder. Programs in the build folder use the same relative places.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/doc)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/configs ${CMAKE_BINARY_DIR}/share/millrace SYMBOLIC)
file(CREATE_LINK ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/share/doc/millrace SYMBOLIC)

file(GLOB_RECURSE readmes CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} README.md compiler/README.md configs/README.md kernels/README.md
     runtime/README.md server/README.md tests/README.md tools/README.md)
list(FILTER readmes EXCLUDE REGEX "(^|/)(node_modules|build)/")
list(FILTER readmes INCLUDE REGEX "^(README.md|(compiler|configs|kernels|runtime|server|tests|tools)/)")
foreach(readme IN LISTS readmes)
  get_filename_component(folder ${readme} DIRECTORY)
  install(FILES ${readme} DESTINATION share/doc/millrace/${folder})
endforeach()
install(FILES configs/README.md DESTINATION share/millrace)
install(FILES runtime/plugins/example/compare_exchange.cpp runtime/plugins/example/model.onnx
        DESTINATION share/doc/millrace/runtime/plugins/example)

# The unit must name the program by its full path, which depends on the prefix that is known only at the installation.
install(CODE "set(units \"${CMAKE_CURRENT_SOURCE_DIR}/configs/systemd\")")
install(CODE [[
  get_filename_component(prefix "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
  foreach(unit millrace.service millrace.socket)
    file(READ "${units}/${unit}" text)
    string(REPLACE "/usr/bin/millrace" "${prefix}/bin/millrace" text "${text}")
    string(REPLACE "/usr/share/" "${prefix}/share/" text "${text}")
    set(installed "${prefix}/lib/systemd/system/${unit}")
    message(STATUS "Installing: $ENV{DESTDIR}${installed}")
    file(WRITE "$ENV{DESTDIR}${installed}" "${text}")
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${installed}")
  endforeach()
]])
