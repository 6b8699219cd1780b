// SPDX-License-Identifier: Apache-2.0
// The search tree that libelf.a of elfutils 0.192 (Debian 13) uses and does not contain: distributions install the shared
// libelf with it, but not the internal archive that it comes from. Linked after libelf.a, so that an archive that has its
// own is not disturbed.
//
// A tree is a structure of libelf's own whose room is at least a pointer, and which only these functions look into.
// libelf's only user of insertion is elf_getdata_rawchunk(), which libbpf does not call: no lock is needed.
#define _GNU_SOURCE
#include <search.h>

typedef int compare_function(const void*, const void*);

void eu_search_tree_init(void** root);
void eu_search_tree_fini(void** root, void (*free_node)(void*));
void* eu_tsearch(const void* key, void** root, compare_function* compare);
void* eu_tfind(const void* key, void** root, compare_function* compare);
void* eu_tdelete(const void* key, void** root, compare_function* compare);

void eu_search_tree_init(void** root) { *root = 0; }

void eu_search_tree_fini(void** root, void (*free_node)(void*)) {
    tdestroy(*root, free_node);
    *root = 0;
}

void* eu_tsearch(const void* key, void** root, compare_function* compare) { return tsearch(key, root, compare); }

void* eu_tfind(const void* key, void** root, compare_function* compare) { return tfind(key, root, compare); }

void* eu_tdelete(const void* key, void** root, compare_function* compare) { return tdelete(key, root, compare); }
