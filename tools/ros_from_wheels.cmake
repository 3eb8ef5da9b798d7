# Passed with CMAKE_PROJECT_INCLUDE where ROS comes from Python wheels in a virtual environment.
#
# The imported targets of those wheels name the Python headers of the machine that built them,
# below /opt/python/cp3XX-..., and CMake refuses include directories that do not exist. Once the
# project is configured, such entries are dropped from every imported target of the directory;
# the headers of the interpreter that builds here are found by FindPython3 on their own.
#
# The virtual environment lies in the source tree, and CMake refuses to export include directories
# from there (numpy's), so for our own targets they count while building only.
cmake_language(DEFER CALL vig_fix_include_directories)

function(vig_fix_include_directories)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(directories)
      list(FILTER directories EXCLUDE REGEX "^/opt/python/cp")
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${directories}")
    endif()
  endforeach()

  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(directories)
      string(REGEX REPLACE "(^|;)(${CMAKE_SOURCE_DIR}/\\.vig/[^;]*)" "\\1$<BUILD_INTERFACE:\\2>"
        directories "${directories}")
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${directories}")
    endif()
  endforeach()
endfunction()
