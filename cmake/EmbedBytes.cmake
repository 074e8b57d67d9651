# cmake -DINPUT=... -DOUTPUT=... -P EmbedBytes.cmake: makes the bytes of a file a list of numbers for a C++ array.

file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "${bytes}\n")
