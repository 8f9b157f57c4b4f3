# src/mesh: axes and groups
noinst_LIBRARIES += src/mesh/libmesh.a
src_mesh_libmesh_a_SOURCES = src/mesh/mesh.c src/mesh/mesh.h \
	src/mesh/split.c src/mesh/split.h
MESH_LIBS = src/mesh/libmesh.a $(COMM_LIBS)

if HAVE_CMOCKA
MESH_TESTS = src/mesh/test/split.t
check_PROGRAMS += $(MESH_TESTS)
TESTS += $(MESH_TESTS)
src_mesh_test_split_t_SOURCES = src/mesh/test/split.c
src_mesh_test_split_t_LDADD = $(MESH_LIBS) $(DATA_LIBS) $(CMOCKA_LIBS)
endif
