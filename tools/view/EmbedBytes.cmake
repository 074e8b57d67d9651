# cmake -DINPUT=... -DOUTPUT=... -P EmbedBytes.cmake: makes the elements of a C++ array of a file.

file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "${bytes}\n")
