# LLVM, MLIR and lld 22, and the way to declare a library that uses them.

find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
find_package(LLD REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/lld)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# One precompiled header for every file that uses MLIR. That of `tn`, which nearly all include, takes a third of the time of each; by
# its path from the root, so that the header is the same in every folder.
set(mlir_headers
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/PatternMatch.h>
  <mlir/Interfaces/InferTypeOpInterface.h> <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Dialect/Func/IR/FuncOps.h> <llvm/ADT/TypeSwitch.h> <llvm/ADT/StringSwitch.h>
  <compiler/graph/Tn.h>)
add_library(tenon_mlir STATIC ${CMAKE_SOURCE_DIR}/cmake/MlirPch.cpp)
target_include_directories(tenon_mlir SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_include_directories(tenon_mlir PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(tenon_mlir PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti -fno-exceptions>)
target_precompile_headers(tenon_mlir PRIVATE ${mlir_headers})
include(TenonStaticLLVM)
target_link_libraries(tenon_mlir PUBLIC
  "$<${tenon_with_archives}:${tenon_mlir_archives}>" "$<$<NOT:${tenon_with_archives}>:MLIR>" tenon_llvm)

# A second one for code generation: its dialects' headers take half of the time of each of its files.
set(mlir_dialect_headers ${mlir_headers}
  <mlir/Dialect/Affine/IR/AffineOps.h> <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/GPU/IR/GPUDialect.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h> <mlir/Dialect/LLVMIR/NVVMDialect.h> <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Math/IR/Math.h> <mlir/Dialect/MemRef/IR/MemRef.h> <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h> <mlir/Dialect/Vector/IR/VectorOps.h>)
add_library(tenon_mlir_dialects STATIC ${CMAKE_SOURCE_DIR}/cmake/MlirPch.cpp)
target_link_libraries(tenon_mlir_dialects PUBLIC tenon_mlir)
target_precompile_headers(tenon_mlir_dialects PRIVATE ${mlir_dialect_headers})

# A third one for tests: GoogleTest's header takes half of what is then left.
add_library(tenon_mlir_testing STATIC ${CMAKE_SOURCE_DIR}/cmake/MlirPch.cpp)
find_package(GTest REQUIRED)
target_link_libraries(tenon_mlir_testing PUBLIC tenon_mlir GTest::gtest)
target_precompile_headers(tenon_mlir_testing PRIVATE ${mlir_dialect_headers} <gtest/gtest.h>)

# tenon_mlir_library(NAME SOURCES a.cpp ... [DEPS target ...]): with the precompiled header that TENON_PCH names in its folder.
set(TENON_PCH tenon_mlir)
function(tenon_mlir_library NAME)
  tenon_library(${NAME} ${ARGN})
  target_link_libraries(tenon_${NAME} PUBLIC tenon_mlir)
  target_precompile_headers(tenon_${NAME} REUSE_FROM ${TENON_PCH})
endfunction()

# tenon_mlir_test(NAME SOURCES a.cpp ... [DEPS target ...]): a test whose files use MLIR. The precompiled header was made in a
# library, and libraries are position independent in another way than programs.
function(tenon_mlir_test NAME)
  tenon_test(${NAME} ${ARGN})
  target_compile_options(${NAME} PRIVATE -fPIC)
  target_precompile_headers(${NAME} REUSE_FROM tenon_mlir_testing)
endfunction()
