# Writes the C++ source OUTPUT, which contains the text of each file in SOURCES (paths below FOLDER) as a string.
set(text "#include \"kernels/rtl/library.hpp\"\n\nnamespace millrace::kernels::rtl {\n\n")
string(APPEND text "const std::vector<LibraryFile>& library() {\n  static const std::vector<LibraryFile> files = {\n")
foreach(source IN LISTS SOURCES)
  file(READ ${FOLDER}/${source} content)
  string(APPEND text "      {\"${source}\", R\"sv_text(${content})sv_text\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace millrace::kernels::rtl\n")
file(WRITE ${OUTPUT} "${text}")
