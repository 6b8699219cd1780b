# SPDX-License-Identifier: Apache-2.0
# Warnings, hardening and the libraries that every target draws on.

find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(GTest REQUIRED)
find_package(CLI11 REQUIRED)

# require_library(TARGET pkg-config-name debian-package): an imported target, or one sentence that names the cure.
function(require_library target module package)
  pkg_check_modules(${target} QUIET IMPORTED_TARGET ${module})
  if(NOT ${target}_FOUND)
    message(FATAL_ERROR "${module} not found: apt-get install ${package} (or run scripts/deps)")
  endif()
  # Debian ships the static archives of these libraries; their private dependencies are named by pkg-config.
  add_library(xveth::${target} INTERFACE IMPORTED GLOBAL)
  if(XVETH_STATIC)
    target_link_libraries(xveth::${target} INTERFACE ${${target}_STATIC_LIBRARIES})
  else()
    target_link_libraries(xveth::${target} INTERFACE ${${target}_LIBRARIES})
  endif()
  target_include_directories(xveth::${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIRS})
endfunction()

require_library(libbpf libbpf libbpf-dev)
if(XVETH_STATIC)
  add_library(xveth_libelf_static STATIC ${CMAKE_SOURCE_DIR}/cmake/libelf_static.c)
  target_link_libraries(xveth::libbpf INTERFACE xveth_libelf_static)
endif()
require_library(libnl libnl-3.0 libnl-3-dev)
if(XVETH_STATIC)
  add_library(xveth_libnl_static STATIC ${CMAKE_SOURCE_DIR}/cmake/libnl_static.c)
  target_link_libraries(xveth::libnl INTERFACE xveth_libnl_static)
endif()
require_library(libnl_route libnl-route-3.0 libnl-route-3-dev)
require_library(libnl_genl libnl-genl-3.0 libnl-genl-3-dev)

add_library(xveth_flags INTERFACE)
add_library(xveth::flags ALIAS xveth_flags)
target_include_directories(xveth_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(xveth_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wcast-qual -Wformat=2 -Wundef -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op -Wuseless-cast>
  $<$<BOOL:${XVETH_WERROR}>:-Werror>
  -fstack-protector-strong -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
  $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS -ffunction-sections -fdata-sections>)
if(XVETH_ASAN)
  target_compile_options(xveth_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined)
  target_link_options(xveth_flags INTERFACE -fsanitize=address,undefined)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

# xveth_library(NAME SOURCES … LINK …): a static library of one folder, with the project's flags.
function(xveth_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(xveth_${name} STATIC ${ARG_SOURCES})
  add_library(xveth::${name} ALIAS xveth_${name})
  target_link_libraries(xveth_${name} PUBLIC ${ARG_LINK} PRIVATE xveth::flags)
  target_include_directories(xveth_${name} PUBLIC ${CMAKE_SOURCE_DIR})
endfunction()

# xveth_executable(NAME SOURCES … LINK …): a shipped binary in bin/, static and stripped when XVETH_STATIC is set.
function(xveth_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} xveth::flags)
  if(XVETH_STATIC)
    target_link_options(${name} PRIVATE -static -s -Wl,--gc-sections)
  endif()
endfunction()

# xveth_test(NAME LABEL label SOURCES … LINK …): a GoogleTest program registered with CTest under `label`.
# One CTest entry a program: the programs set up namespaces of their own and are quick. Target tests_<label> builds them.
function(xveth_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main xveth::flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
  if(NOT TARGET tests_${ARG_LABEL})
    add_custom_target(tests_${ARG_LABEL})
  endif()
  add_dependencies(tests_${ARG_LABEL} ${name})
endfunction()
