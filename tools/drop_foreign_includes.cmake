# Passed with CMAKE_PROJECT_INCLUDE where ROS comes from Python wheels.
#
# The imported targets of those wheels name the Python headers of the machine that built them,
# below /opt/python/cp3XX-..., and CMake refuses include directories that do not exist. Once the
# project is configured, such entries are dropped from every imported target of the directory;
# the headers of the interpreter that builds here are found by FindPython3 on their own.
cmake_language(DEFER CALL vig_drop_foreign_includes)

function(vig_drop_foreign_includes)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(directories)
      list(FILTER directories EXCLUDE REGEX "^/opt/python/cp")
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${directories}")
    endif()
  endforeach()
endfunction()
