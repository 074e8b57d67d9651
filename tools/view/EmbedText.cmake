# cmake -DINPUT=... -DOUTPUT=... -P EmbedText.cmake: makes a C++ string literal of a text file.

file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "R\"embedded(${text})embedded\"\n")
