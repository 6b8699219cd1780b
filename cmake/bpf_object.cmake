# SPDX-License-Identifier: Apache-2.0
# BPF programs: compiled to object files, and embedded in C and C++ by skeletons.

find_program(XVETH_BPF_CLANG NAMES clang DOC "clang that compiles the BPF programs")
# Ubuntu's /usr/sbin/bpftool is a script that runs none but the running kernel's; the real ones lie beside it.
file(GLOB XVETH_LINUX_TOOLS LIST_DIRECTORIES true /usr/lib/linux-tools/*)
find_program(XVETH_BPFTOOL NAMES bpftool HINTS ${XVETH_LINUX_TOOLS} PATHS /usr/sbin /usr/local/sbin DOC "bpftool that generates the skeletons")
foreach(tool XVETH_BPF_CLANG XVETH_BPFTOOL)
  if(NOT ${tool})
    message(FATAL_ERROR "${tool} not found: run scripts/deps (Debian packages clang and bpftool)")
  endif()
endforeach()

# <asm/types.h> lives in the multiarch folder, which clang does not search for the bpf target.
execute_process(COMMAND ${CMAKE_C_COMPILER} -print-multiarch OUTPUT_VARIABLE XVETH_MULTIARCH OUTPUT_STRIP_TRAILING_WHITESPACE)

set(XVETH_BPF_CFLAGS -O2 -g -target bpf -mcpu=v3 -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror
    -idirafter /usr/include/${XVETH_MULTIARCH} -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)

# bpf_file(OBJECT SOURCE file.bpf.c FLAGS …): compile one BPF C file into the object file OBJECT.
function(bpf_file object)
  cmake_parse_arguments(ARG "" "SOURCE" "FLAGS" ${ARGN})
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SOURCE})
  get_filename_component(name ${object} NAME)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${XVETH_BPF_CLANG} ${XVETH_BPF_CFLAGS} -I${CMAKE_SOURCE_DIR} ${ARG_FLAGS} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "BPF ${name}" VERBATIM)
endfunction()

# bpf_object(NAME SOURCE file.bpf.c INCLUDES …): compile one BPF C file and generate NAME.skel.h, which embeds the object.
# Gives the interface target xveth::bpf_NAME, whose include path (SYSTEM: generated code is not held to our warnings) has it.
function(bpf_object name)
  cmake_parse_arguments(ARG "" "SOURCE" "INCLUDES" ${ARGN})
  set(dir ${CMAKE_CURRENT_BINARY_DIR}/skel)
  set(object ${dir}/${name}.bpf.o)
  set(skeleton ${dir}/${name}.skel.h)
  set(includes)
  foreach(path ${ARG_INCLUDES})
    list(APPEND includes -I${path})
  endforeach()
  file(MAKE_DIRECTORY ${dir})
  bpf_file(${object} SOURCE ${ARG_SOURCE} FLAGS ${includes})
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND sh -c "${XVETH_BPFTOOL} gen skeleton ${object} name ${name} > ${skeleton}.tmp && mv ${skeleton}.tmp ${skeleton}"
    DEPENDS ${object} COMMENT "BPF ${name}.skel.h" VERBATIM)
  add_custom_target(bpf_${name}_generate DEPENDS ${skeleton})
  add_library(xveth_bpf_${name} INTERFACE)
  add_dependencies(xveth_bpf_${name} bpf_${name}_generate)
  target_include_directories(xveth_bpf_${name} SYSTEM INTERFACE ${dir})
  add_library(xveth::bpf_${name} ALIAS xveth_bpf_${name})
endfunction()
