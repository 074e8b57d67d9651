# Compile settings and the one way to declare a library: folder = target = namespace.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)

add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffunction-sections -fdata-sections)
add_link_options(-fuse-ld=lld -Wl,--gc-sections)
if(TENON_SANITIZE)
  # fuzzer-no-link counts edges for the fuzzers of test/fuzz.
  add_compile_options(-fsanitize=${TENON_SANITIZE} -fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${TENON_SANITIZE})
endif()
if(TENON_STRIP)
  add_link_options(-Wl,--strip-all)
endif()

# A precompiled header is only cacheable when its timestamp does not count. What is not in the cache is not preprocessed for it first.
find_program(TENON_CCACHE ccache)
if(TENON_CCACHE)
  set(launcher ${CMAKE_COMMAND} -E env "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" CCACHE_DEPEND=1
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" ${TENON_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# tenon_library(NAME SOURCES a.cpp ... [DEPS target ...]): a static library named tenon_NAME whose
# headers are included by their path from the root of the source tree.
function(tenon_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(tenon_${NAME} STATIC ${ARG_SOURCES})
  target_include_directories(tenon_${NAME} PUBLIC
    ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(tenon_${NAME} PUBLIC ${ARG_DEPS})
endfunction()

# tenon_test(NAME SOURCES a.cpp ... [DEPS target ...]): a GoogleTest program registered with ctest.
function(tenon_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${NAME} ${ARG_SOURCES})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${NAME} PRIVATE TENON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME})
  # ctest lists what was left out; the text ends so only where nothing failed.
  set_tests_properties(${NAME} PROPERTIES
    SKIP_REGULAR_EXPRESSION "listed below:\n(\\[  SKIPPED \\] [^\n]*\n)+$")
endfunction()
