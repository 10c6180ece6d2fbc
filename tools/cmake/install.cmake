# What `cmake --install` puts into a prefix, but for the C++ client, which tools/clients/cpp installs itself. The programs find
# everything relative to themselves (the shim) or hold it (catalogue, hardware library, console), so a prefix can be moved.

include_guard(GLOBAL)

install(TARGETS millrace millrace_card RUNTIME DESTINATION bin)
# Not CMAKE_INSTALL_LIBDIR: where select_backend() looks, from the program.
install(TARGETS millrace_xrt_shim LIBRARY DESTINATION lib/millrace/xrt/lib NAMELINK_SKIP)

install(DIRECTORY configs/devices configs/clusters configs/monitoring DESTINATION share/millrace PATTERN alerts_test.yml EXCLUDE)
install(FILES configs/server.yaml DESTINATION share/millrace)
install(PROGRAMS configs/plugins/dense_plugin.py DESTINATION share/millrace/plugins)
install(PROGRAMS tools/clients/python/millrace_client.py DESTINATION share/millrace/python)
install(FILES README.md LICENSE DESTINATION share/doc/millrace)

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
