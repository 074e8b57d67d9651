# find_package(Tenon): Tenon::runtime, and where the compiler is installed Tenon::compiler and the program Tenon::tenon.
include("${CMAKE_CURRENT_LIST_DIR}/TenonRuntime.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/TenonCompiler.cmake" OPTIONAL)

foreach(component ${Tenon_FIND_COMPONENTS})
  if(Tenon_FIND_REQUIRED_${component} AND NOT TARGET Tenon::${component})
    set(Tenon_FOUND FALSE)
    set(Tenon_NOT_FOUND_MESSAGE "Tenon::${component} is not in ${CMAKE_CURRENT_LIST_DIR}; install with --component compiler too")
  endif()
endforeach()
