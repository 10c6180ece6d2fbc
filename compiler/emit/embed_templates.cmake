# millrace_embed_templates(FUNCTION): makes templates.cpp with `std::string_view FUNCTION(std::string_view name)`, which
# returns the text of templates/<name>.*.in of the current folder.
set(MILLRACE_TEMPLATES_CPP ${CMAKE_CURRENT_LIST_DIR}/templates.cpp.in)
function(millrace_embed_templates MILLRACE_FUNCTION)
  file(GLOB templates CONFIGURE_DEPENDS templates/*.in)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${templates})
  set(MILLRACE_TEMPLATES "")
  foreach(template IN LISTS templates)
    get_filename_component(name ${template} NAME_WE)
    file(READ ${template} text)
    string(APPEND MILLRACE_TEMPLATES "      {\"${name}\", R\"millrace(${text})millrace\"},\n")
  endforeach()
  configure_file(${MILLRACE_TEMPLATES_CPP} ${CMAKE_CURRENT_BINARY_DIR}/templates.cpp @ONLY)
endfunction()
