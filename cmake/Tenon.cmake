# Compile settings and the one way to declare a library: folder = target = namespace.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)

# libstdc++ 12 calls functions in its own headers that it declares deprecated.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-deprecated-declarations -ffunction-sections -fdata-sections)
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

# tenon_batches(SOURCES): in a build by batches, the C++ files that the list named SOURCES gives by their path in this folder are compiled
# TENON_BATCH at a time: most of a file's time goes to headers. CMAKE_UNITY_BUILD does the same, but names the folder of the
# checkout in its files, so that no other checkout finds them in the compiler's cache. Files that are generated or have options of their own stay
# by themselves.
function(tenon_batches SOURCES)
  set(files ${${SOURCES}})
  list(FILTER files INCLUDE REGEX "\\.cpp$")
  list(TRANSFORM files REPLACE "^${CMAKE_CURRENT_SOURCE_DIR}/" "")
  list(FILTER files EXCLUDE REGEX "^/")
  foreach(file ${files})
    get_source_file_property(options ${file} COMPILE_OPTIONS)
    get_source_file_property(is_skipped ${file} SKIP_UNITY_BUILD_INCLUSION)
    if(options OR is_skipped)
      list(REMOVE_ITEM files ${file})
    endif()
  endforeach()
  list(LENGTH files count)
  if(NOT TENON_BATCH GREATER 1 OR count LESS 2)
    return()
  endif()
  set(rest ${${SOURCES}})
  list(TRANSFORM rest REPLACE "^${CMAKE_CURRENT_SOURCE_DIR}/" "")
  list(REMOVE_ITEM rest ${files})
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  list(GET files 0 first)
  string(MAKE_C_IDENTIFIER ${first} name)
  math(EXPR batches "(${count} + ${TENON_BATCH} - 1) / ${TENON_BATCH}")
  foreach(batch RANGE 1 ${batches})
    math(EXPR begin "(${batch} - 1) * ${count} / ${batches}")
    math(EXPR length "${batch} * ${count} / ${batches} - ${begin}")
    list(SUBLIST files ${begin} ${length} members)
    list(TRANSFORM members REPLACE "(.+)" "#include \"${folder}/\\1\"")
    list(JOIN members "\n" text)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/batches/${name}_${batch}.cpp)
    file(CONFIGURE OUTPUT ${output} CONTENT "${text}\n" @ONLY)
    list(APPEND rest ${output})
  endforeach()
  set(${SOURCES} ${rest} PARENT_SCOPE)
endfunction()

# tenon_compile_apart(): files of this folder and those below are compiled one by one. The small runtime carries them, and in a batch
# more is inlined: 4 kB in all.
macro(tenon_compile_apart)
  if(NOT TENON_SANITIZE)
    set(TENON_BATCH 1)
  endif()
endmacro()

# tenon_library(NAME SOURCES a.cpp ... [DEPS target ...]): a static library named tenon_NAME whose
# headers are included by their path from the root of the source tree.
function(tenon_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  tenon_batches(ARG_SOURCES)
  add_library(tenon_${NAME} STATIC ${ARG_SOURCES})
  target_include_directories(tenon_${NAME} PUBLIC
    ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(tenon_${NAME} PUBLIC ${ARG_DEPS})
endfunction()

# tenon_test(NAME [UNOPTIMIZED] SOURCES a.cpp ... [DEPS target ...]): a GoogleTest program registered with ctest. To optimize GoogleTest's macros takes more
# than half of the time of a test's file: UNOPTIMIZED are tests that hardly compute by themselves.
function(tenon_test NAME)
  cmake_parse_arguments(ARG "UNOPTIMIZED" "" "SOURCES;DEPS" ${ARGN})
  find_package(GTest REQUIRED)
  tenon_batches(ARG_SOURCES)
  add_executable(${NAME} ${ARG_SOURCES})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gtest_main)
  if(ARG_UNOPTIMIZED)
    target_compile_options(${NAME} PRIVATE -O0)
  endif()
  target_compile_definitions(${NAME} PRIVATE TENON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME})
  # ctest lists what was left out; the text ends so only where nothing failed.
  set_tests_properties(${NAME} PROPERTIES
    SKIP_REGULAR_EXPRESSION "listed below:\n(\\[  SKIPPED \\] [^\n]*\n)+$")
endfunction()
