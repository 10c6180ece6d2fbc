# What `cmake --install` puts into a prefix, but for the C++ client, which tools/clients/cpp installs itself. The programs find
# everything relative to themselves (the shim) or hold it (catalogue, hardware library, console), so a prefix can be moved.

include_guard(GLOBAL)

install(TARGETS millrace millrace_card RUNTIME DESTINATION bin)
# Not CMAKE_INSTALL_LIBDIR: where select_backend() looks, from the program.
install(TARGETS millrace_xrt_shim LIBRARY DESTINATION lib/millrace/xrt/lib NAMELINK_SKIP)

install(DIRECTORY configs/devices configs/clusters configs/monitoring DESTINATION share/millrace PATTERN alerts_test.yml EXCLUDE)
install(FILES configs/server.yaml DESTINATION share/millrace)
install(PROGRAMS configs/plugins/dense_plugin.py DESTINATION share/millrace/plugins)
install(DIRECTORY tools/clients/python DESTINATION share/millrace FILES_MATCHING PATTERN *.py PATTERN pyproject.toml PATTERN py.typed
        PATTERN __pycache__ EXCLUDE)
file(WRITE ${CMAKE_BINARY_DIR}/version.txt "${PROJECT_VERSION}\n")
install(FILES ${CMAKE_BINARY_DIR}/version.txt DESTINATION share/millrace/python)
install(FILES LICENSE DESTINATION share/doc/millrace)

# Every folder's README, at its place in the tree: messages, --help and the installed files name them so. The cluster and device files
# name the one of configs/ by their own parent folder.
# Programs of the build folder find both where those of a prefix do.
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

# The unit names the program by its full path: the one that was installed, whatever the prefix turns out to be.
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
