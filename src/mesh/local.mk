# src/mesh: axes and groups
noinst_LIBRARIES += src/mesh/libmesh.a
src_mesh_libmesh_a_SOURCES = src/mesh/mesh.c src/mesh/mesh.h
MESH_LIBS = src/mesh/libmesh.a $(COMM_LIBS)
