# `cmake --install`: the library, its headers, the packages for CMake and pkg-config, and the
# command.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# LLVM may lie where the system does not look.
set_target_properties(ccl ccljit PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS ccl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ccljit EXPORT ccljit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ccljit-cuda-shim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ccl.h cuda.h topology.h builder/builder.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ccl)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/ccljit)
install(EXPORT ccljit NAMESPACE ccljit:: FILE ccljitTargets.cmake DESTINATION ${package})
configure_package_config_file(ccljitConfig.cmake.in ccljitConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
# Before version 1 the interface may change with every minor version.
write_basic_package_version_file(ccljitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ccljitConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/ccljitConfigVersion.cmake
        DESTINATION ${package})

# From the folder of the .pc file to the prefix, so that the tree can be moved.
set(pcfolder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH CCL_PC_TO_PREFIX ${pcfolder} ${CMAKE_INSTALL_PREFIX})
configure_file(ccljit.pc.in ccljit.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ccljit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
