# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where. A runtime looks for plugins where its configuration says; /opt/cni/bin is what
# containerd, CRI-O and the Kubernetes packages use unless told otherwise.

include(GNUInstallDirs)
set(XVETH_CNI_DIR /opt/cni/bin CACHE PATH "Where the container runtime looks for CNI plugins")

install(TARGETS xveth RUNTIME DESTINATION ${XVETH_CNI_DIR})
if(TARGET xvethctl)
  install(TARGETS xvethctl RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR})
  install(FILES docs/man/xvethctl.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
endif()
if(TARGET xvethd)
  install(TARGETS xvethd RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR})
  install(FILES docs/man/xvethd.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
endif()
install(TARGETS xveth_xsk ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES xsk/xveth_xsk.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/xveth)
install(FILES deploy/10-xveth.conflist DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
