# Writes the C++ text OUT, which has a row {name, bytes} for each of FILES.
file(WRITE ${OUT} "")
foreach(path IN LISTS FILES)
  get_filename_component(name ${path} NAME)
  file(READ ${path} content)
  file(APPEND ${OUT} "{\"${name}\", R\"page(${content})page\"},\n")
endforeach()
