# Script: writes OUTPUT, a header that defines NAME as the hash of the contents of FILES (a list).
set(all "")
foreach(file IN LISTS FILES)
  file(SHA256 ${file} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 32 hash)
file(WRITE ${OUTPUT} "#define ${NAME} \"${hash}\"\n")
