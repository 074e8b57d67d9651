# cmake -DFOLDER=... -DOUTPUT=... -P EmbedPages.cmake: makes a C++ initializer list of the pages in docs/errors.

file(GLOB pages ${FOLDER}/TN*.md)
list(SORT pages)
set(all "")
foreach(page ${pages})
  get_filename_component(name ${page} NAME_WE)
  file(READ ${page} text)
  string(APPEND all "{\"${name}\", R\"page(${text})page\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${all}")
