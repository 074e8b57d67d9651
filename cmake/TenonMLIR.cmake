# LLVM, MLIR and lld 22, and the way to declare a library that uses them.

find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
find_package(LLD REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/lld)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# One precompiled header for every file that uses MLIR.
add_library(tenon_mlir STATIC ${CMAKE_SOURCE_DIR}/cmake/MlirPch.cpp)
target_include_directories(tenon_mlir SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_options(tenon_mlir PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti -fno-exceptions>)
target_precompile_headers(tenon_mlir PRIVATE
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/PatternMatch.h>
  <mlir/Interfaces/InferTypeOpInterface.h> <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Dialect/Func/IR/FuncOps.h> <llvm/ADT/TypeSwitch.h> <llvm/ADT/StringSwitch.h>)
include(TenonStaticLLVM)
target_link_libraries(tenon_mlir PUBLIC
  "$<${tenon_with_archives}:${tenon_mlir_archives}>" "$<$<NOT:${tenon_with_archives}>:MLIR>" tenon_llvm)

# tenon_mlir_library(NAME SOURCES a.cpp ... [DEPS target ...])
function(tenon_mlir_library NAME)
  tenon_library(${NAME} ${ARGN})
  target_link_libraries(tenon_${NAME} PUBLIC tenon_mlir)
  target_precompile_headers(tenon_${NAME} REUSE_FROM tenon_mlir)
endfunction()
