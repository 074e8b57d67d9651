# What `cmake --install` puts where, in two parts: the runtime, which programs that run engines need, and the compiler with
# the command line. Nothing installed names a path, so a prefix can be moved. Relies on the targets, so it is included last.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Tenon)

# tenon_install(PART TARGET NAME ...): TARGETs become Tenon::NAME in the file TenonPART.cmake of the package.
function(tenon_install PART)
  set(targets "")
  while(ARGN)
    list(POP_FRONT ARGN target name)
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    list(APPEND targets ${target})
  endwhile()
  string(TOLOWER ${PART} component)
  install(TARGETS ${targets} EXPORT Tenon${PART} COMPONENT ${component}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT Tenon${PART} NAMESPACE Tenon:: DESTINATION ${package_folder} COMPONENT ${component})
endfunction()

tenon_install(Runtime tenon_runtime runtime tenon_generate_c generate)
install(FILES include/tenon/tenon.h include/tenon/tenon.hpp include/tenon/generate.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenon COMPONENT runtime)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
# The licence texts of what is linked in, by the list of docs/reference/third-party.md.
file(STRINGS docs/reference/third-party.md rows REGEX "^\\| `")
foreach(row ${rows})
  string(REGEX MATCH "[a-z0-9.+-]+" package "${row}")
  install(FILES /usr/share/doc/${package}/copyright OPTIONAL
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/third-party RENAME ${package} COMPONENT runtime)
endforeach()

write_basic_package_version_file(${CMAKE_BINARY_DIR}/TenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/TenonConfig.cmake ${CMAKE_BINARY_DIR}/TenonConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT runtime)

# The backend for Triton with its runtime, only where asked for: `cmake --install build/dev --component triton --prefix .../backends/tenon`.
install(TARGETS tenon_triton tenon_runtime LIBRARY DESTINATION . COMPONENT triton EXCLUDE_FROM_ALL)

file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
configure_file(cmake/tenon.pc.in ${CMAKE_BINARY_DIR}/tenon.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tenon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT runtime)

if(TENON_COMPILER)
  file(RELATIVE_PATH libraries_from_tool /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  if(NOT libraries_from_tool STREQUAL "../lib")
    set_property(TARGET tenon_launcher APPEND PROPERTY INSTALL_RPATH "\$ORIGIN/${libraries_from_tool}")
  endif()
  # The compiler's statuses are read by functions of the runtime.
  target_link_libraries(tenon_compiler INTERFACE $<INSTALL_INTERFACE:tenon_runtime>)
  tenon_install(Compiler tenon_compiler compiler tenon_launcher tenon)
  install(FILES include/tenon/compiler.h include/tenon/graph.h include/tenon/graph.hpp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenon COMPONENT compiler)
endif()
