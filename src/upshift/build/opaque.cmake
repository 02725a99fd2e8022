# Included by each project() of a server's CMake files, through CMAKE_PROJECT_INCLUDE: the sources in OPAQUE_SOURCES, paths below
# the source folder, are compiled without link-time optimisation. Put off until the top folder is done, because CMake takes a
# property for a folder only once it has read that folder.
if(CMAKE_CURRENT_SOURCE_DIR STREQUAL CMAKE_SOURCE_DIR)
  foreach(source IN LISTS OPAQUE_SOURCES)
    get_filename_component(folder "${CMAKE_SOURCE_DIR}/${source}" DIRECTORY)
    while(NOT EXISTS "${folder}/CMakeLists.txt")
      get_filename_component(folder "${folder}" DIRECTORY)
    endwhile()
    # A deferred call expands its arguments when it runs, and the loop is over by then.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL set_source_files_properties [[${CMAKE_SOURCE_DIR}/${source}]]
      DIRECTORY [[${folder}]] PROPERTIES COMPILE_OPTIONS -fno-lto)")
  endforeach()
endif()
