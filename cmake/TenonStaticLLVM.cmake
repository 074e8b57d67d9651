# LLVM, MLIR and lld as archives, for binaries that need none of them where they run: all of the preset static, and in
# every preset the targets whose property TENON_ARCHIVES is on. Only links differ, so both kinds are made of the same objects.
# Debian's exported MLIR and lld targets depend on the shared `LLVM`, and LLVM's own on shared zlib, zstd and z3:
# in every target that is reached from here these are replaced, by component archives or by nothing.

llvm_map_components_to_libnames(tenon_llvm_archives
  AArch64AsmParser AArch64CodeGen AArch64Desc AArch64Info AggressiveInstCombine Analysis ARMAsmParser ARMCodeGen ARMDesc ARMInfo AsmParser AsmPrinter BinaryFormat BitReader BitWriter CodeGen CodeGenTypes Core
  Coroutines DebugInfoDWARF DTLTO FrontendOpenMP InstCombine Instrumentation IPO IRReader Linker LTO MC MCParser NVPTXCodeGen
  NVPTXDesc NVPTXInfo Object Option Passes ProfileData Remarks RISCVAsmParser RISCVCodeGen RISCVDesc RISCVInfo ScalarOpts SelectionDAG Support Symbolize Target TargetParser TransformUtils
  Vectorize X86AsmParser X86CodeGen X86Desc X86Info)

set(tenon_mlir_archives
  MLIRAffineDialect MLIRAffineToStandard MLIRAffineTransforms MLIRAnalysis MLIRArithDialect MLIRArithToLLVM
  MLIRArithTransforms MLIRArithUtils MLIRAsmParser MLIRBufferizationDialect MLIRBufferizationTransforms
  MLIRBuiltinToLLVMIRTranslation MLIRBytecodeOpInterface MLIRControlFlowDialect MLIRControlFlowToLLVM
  MLIRConvertToLLVMPass MLIRFuncDialect MLIRFuncToLLVM MLIRIR MLIRIndexDialect MLIRIndexToLLVM MLIRLLVMDialect
  MLIRLLVMToLLVMIRTranslation MLIRLinalgDialect MLIRLinalgTransforms MLIRMathDialect MLIRMathToLLVM MLIRMemRefDialect
  MLIRMemRefToLLVM MLIRMemRefTransforms MLIRNVVMDialect MLIRNVVMToLLVM MLIRNVVMToLLVMIRTranslation MLIRParser MLIRPass MLIRReconcileUnrealizedCasts MLIRSCFDialect
  MLIRSCFToControlFlow MLIRSCFTransforms MLIRSupport MLIRTargetLLVMIRExport MLIRTensorDialect
  MLIRTensorInferTypeOpInterfaceImpl MLIRTensorTilingInterfaceImpl MLIRTensorTransforms MLIRTransforms MLIRUBDialect
  MLIRUBToLLVM MLIRVectorDialect MLIRVectorToLLVM MLIRVectorToLLVMPass MLIRVectorTransforms)

find_library(TENON_ZLIB_ARCHIVE libz.a REQUIRED)
find_library(TENON_ZSTD_ARCHIVE libzstd.a REQUIRED)

# tenon_use_archives(LIBRARY): replaces what LIBRARY and all that it needs would take from shared libraries.
function(tenon_use_archives LIBRARY)
  get_property(seen GLOBAL PROPERTY tenon_archives_seen)
  if(NOT TARGET ${LIBRARY} OR LIBRARY IN_LIST seen)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY tenon_archives_seen ${LIBRARY})
  get_target_property(needed ${LIBRARY} INTERFACE_LINK_LIBRARIES)
  if(NOT needed)
    return()
  endif()
  list(TRANSFORM needed REPLACE "^LLVM$" "tenon_llvm")
  list(TRANSFORM needed REPLACE "^ZLIB::ZLIB$" "${TENON_ZLIB_ARCHIVE}")
  list(TRANSFORM needed REPLACE "^zstd::libzstd_shared$" "${TENON_ZSTD_ARCHIVE}")
  # Only a solver that nothing here uses needs z3, and only link-time optimization needs Polly.
  list(FILTER needed EXCLUDE REGEX "libz3\\.so$|^Polly$")
  set_target_properties(${LIBRARY} PROPERTIES INTERFACE_LINK_LIBRARIES "${needed}")
  foreach(library ${needed})
    tenon_use_archives(${library})
  endforeach()
endfunction()

set(tenon_absent_targets "")
foreach(name ${LLVM_TARGETS_TO_BUILD})
  if(NOT name MATCHES "^(AArch64|ARM|X86|NVPTX|RISCV)$")
    foreach(part TargetInfo Target TargetMC AsmPrinter AsmParser)
      string(APPEND tenon_absent_targets "void LLVMInitialize${name}${part}() {}\n")
    endforeach()
  endif()
endforeach()
configure_file(${CMAKE_SOURCE_DIR}/cmake/AbsentLlvm.cpp.in ${CMAKE_BINARY_DIR}/AbsentLlvm.cpp @ONLY)
add_library(tenon_llvm_absent STATIC ${CMAKE_BINARY_DIR}/AbsentLlvm.cpp)
target_include_directories(tenon_llvm_absent SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
target_compile_options(tenon_llvm_absent PRIVATE -fno-rtti -fno-exceptions)

# As a condition of a generator expression; evaluated for the binary that is linked.
set(tenon_with_archives "$<BOOL:$<TARGET_PROPERTY:TENON_ARCHIVES>>")
if(TENON_STATIC_LLVM)
  set(tenon_with_archives 1)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

add_library(tenon_llvm INTERFACE)
target_link_libraries(tenon_llvm INTERFACE
  "$<${tenon_with_archives}:${tenon_llvm_archives};tenon_llvm_absent>" "$<$<NOT:${tenon_with_archives}>:LLVM>")
foreach(library ${tenon_llvm_archives} ${tenon_mlir_archives} lldELF lldCommon)
  tenon_use_archives(${library})
endforeach()

# tenon_with_archives(NAME ...): links these with the archives. Without LLVM's shared libraries a program starts in a third of the time.
function(tenon_with_archives)
  set_target_properties(${ARGN} PROPERTIES TENON_ARCHIVES ON)
  foreach(name ${ARGN})
    target_link_options(${name} PRIVATE -Wl,-z,pack-relative-relocs -static-libstdc++ -static-libgcc)
  endforeach()
endfunction()
