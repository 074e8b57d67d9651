/* The command `tenon` of the Python package: all of it is in the library beside. */

#include <tenon/compiler.h>

int main(int argc, char **argv) { return tenon_main(argc, argv); }
